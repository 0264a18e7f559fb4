-- Takes a run in: starts it, queues it behind the active one, or lets it take that one's place, as its strategy says.
-- KEYS[1]  base key of the thread
-- KEYS[2]  list of the broker, for the message of a start; only where store and broker are one server
-- ARGV     run, user, graph, graph_version, kind, digest, strategy, delay_ms, timeout_ms, request, input, events, asked_ms,
--          nonce, then for each of the plan tasks start, resume, advance: node, queue, priority, body; messages (post)
-- Returns  {outcome, who stands in the way, or the run that took this for an answer, or '', dispatch, id of that run's last
--          event before}
-- Keeps    1, 6 (a run id is taken in once, also as that of an answer), 9.

local id, user, graph, graph_version, kind, digest, strategy = unpack(ARGV, 1, 7)
local delay_ms, timeout_ms, request, input, events, asked_ms, nonce = unpack(ARGV, 8, 14)
local run = run_of(id)
local posts = kind ~= 'continue' and can_post()
local REFUSALS = { answer = 'waiting', unanswered = 'waiting', busy = 'busy', nothing = 'nothing_to_continue' }

now = num(asked_ms) -- the store's time when it was asked: the moment that was watched is the moment that comes

local function refusal()
  if thread.created_ms == '' then
    return kind == 'continue' and { 'nothing_to_continue', '' }
  elseif thread.user_id ~= user then
    return { 'other_owner', thread.user_id }
  elseif thread.graph ~= graph then
    return { 'other_graph', thread.graph }
  end
  local outcome = num(delay_ms) == 0 and REFUSALS[verdict_on(kind, strategy)]
  return outcome and { outcome, thread.active }
end

if run.created_ms ~= '' then
  if run.digest ~= digest then
    return { 'run_id_taken', '' }
  end
  return { 'known', '', thread.active == id and not posts and dispatch_all() or {} }
end

local taker_digest, taker = open(key('resumes'))[id]:match('^([^:]*):(.*)$')
if taker then
  if taker_digest ~= digest then
    return { 'run_id_taken', '' }
  end
  local after = run_of(taker)['resumed:' .. id]:sub(2)
  return { 'known', taker, thread.active == taker and dispatch_all() or {}, after }
end

local refused = refusal()
if refused then
  return refused
end

if thread.created_ms == '' then
  thread.created_ms, thread.changed_ms = now, now
  thread.user_id, thread.graph, thread.graph_version = user, graph, graph_version
end
set_status(run, 'queued')
run.created_ms, run.kind, run.digest, run.strategy, run.nonce = now, kind, digest, strategy, nonce
run.user_id, run.graph, run.graph_version = user, graph, graph_version
run.timeout_ms, run.request, run.input, run.events = timeout_ms, request, input, events
for i, move_name in ipairs({ 'start', 'resume', 'advance' }) do
  for j, attribute in ipairs({ 'node', 'queue', 'priority', 'body' }) do
    run[move_name .. ':' .. attribute] = ARGV[10 + 4 * i + j]
  end
end
write('list', 'RPUSH', key('runs'), id)
if num(delay_ms) > 0 then
  write('zset', 'ZADD', key('delayed'), text(now + delay_ms), id)
else
  take_in(id, verdict_on(kind, strategy))
end
local is_started = thread.active == id
if is_started and posts then
  post(27)
end
save()
return { is_started and 'started' or 'queued', '', is_started and not posts and dispatch_all() or {} }
