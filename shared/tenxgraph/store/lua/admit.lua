-- Takes a run in: starts it, or queues it behind the active one.
-- KEYS[1]  base key of the thread
-- KEYS[2]  list of the broker, for the message of a start; only where store and broker are one server
-- ARGV     run, user, graph, graph_version, kind, digest, strategy, delay_ms, timeout_ms, request, input, events, asked_ms,
--          then for each of the plan tasks start, resume, advance: node, queue, priority, body; messages (post)
-- Returns  {outcome, who stands in the way, or the run that took this for an answer, or '', dispatch, id of that run's last
--          event before}
-- Keeps    1, 6 (a run id is taken in once, also as that of an answer), 9.

local id, user, graph, graph_version, kind, digest, strategy = unpack(ARGV, 1, 7)
local delay_ms, timeout_ms, request, input, events, asked_ms = unpack(ARGV, 8, 13)
local continues, run = kind == 'continue', run_of(id)
local posts = not continues and can_post()

now = num(asked_ms) -- the store's time when it was asked: the moment that was watched is the moment that comes

local function refusal()
  if thread.created_ms == '' then
    return continues and { 'nothing_to_continue', '' }
  elseif thread.user_id ~= user then
    return { 'other_owner', thread.user_id }
  elseif thread.graph ~= graph then
    return { 'other_graph', thread.graph }
  end
  local active = thread.active
  if active ~= '' and run_of(active).status == 'waiting' and num(delay_ms) == 0 then
    return { 'waiting', active }
  elseif active ~= '' and (strategy == 'reject' or continues) then
    return { 'busy', active }
  elseif continues and thread.continuable == '' then
    return { 'nothing_to_continue', '' }
  end
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
run.created_ms, run.status, run.kind, run.digest = now, 'queued', kind, digest
run.user_id, run.graph, run.graph_version = user, graph, graph_version
run.timeout_ms, run.request, run.input, run.events = timeout_ms, request, input, events
for i, move_name in ipairs({ 'start', 'resume', 'advance' }) do
  for j, attribute in ipairs({ 'node', 'queue', 'priority', 'body' }) do
    run[move_name .. ':' .. attribute] = ARGV[9 + 4 * i + j]
  end
end
write('list', 'RPUSH', key('runs'), id)
if num(delay_ms) > 0 then
  write('zset', 'ZADD', key('delayed'), text(now + delay_ms), id)
else
  take_in(id)
end
local is_started = thread.active == id
if is_started and posts then
  post(26)
end
save()
return { is_started and 'started' or 'queued', '', is_started and not posts and dispatch_all() or {} }
