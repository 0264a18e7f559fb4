-- Takes a run in: starts it, queues it behind the active one, or lets it take that one's place, as its strategy says.
-- KEYS[1]  base key of the thread
-- KEYS[2]  list of the broker, for the message of a start; only where store and broker are one server
-- ARGV     run, user, graph, graph_version, kind, digest, strategy, delay_ms, timeout_ms, request, input, events, asked_ms,
--          nonce, checkpoint to go back to first or 0, meta of the version that this writes; then for each of the plan
--          tasks start, resume, advance: node, queue, priority, body; messages (post)
-- Returns  {outcome, who stands in the way, or the run that took this for an answer, or '', dispatch, id of that run's last
--          event before}
-- Keeps    1, 6 (a run id is taken in once, also as that of an answer), 9.

local id, user, graph, graph_version, kind, digest, strategy = unpack(ARGV, 1, 7)
local delay_ms, timeout_ms, request, input, events, asked_ms, nonce, checkpoint, meta = unpack(ARGV, 8, 16)
local run, continues = run_of(id), kind == 'continue'
local stands_there = num(checkpoint) == num(thread.version)
local posts = not continues and can_post()
local REFUSALS = { answer = 'waiting', unanswered = 'waiting', busy = 'busy', nothing = 'nothing_to_continue' }

now = num(asked_ms) -- the store's time when it was asked: the moment that was watched is the moment that comes

-- A run that goes back has the thread for itself; one that only goes on from the newest checkpoint is like any other.
local function refusal_to_go_back()
  local active = thread.active
  if active ~= '' and continues and stands_there and run_of(active).status == 'waiting' then
    return { 'waiting', active }
  elseif active ~= '' then
    return { 'busy', active }
  elseif not checkpoint_at(checkpoint) then
    return { 'no_checkpoint', '' }
  end
end

-- What was left to continue is dropped, and the journal begins anew: what is done again is meant.
local function go_back()
  local parked, was = thread.continuable, checkpoint_at(checkpoint)
  if stands_there and (parked ~= '' or thread.ready ~= '' or not continues) then
    return
  end
  if parked ~= '' then
    drop_step(parked)
  end
  run.base = thread.version
  if not stands_there then
    return_to(checkpoint, nonce, id, was.step, 'running', meta, continues and was)
  end
  thread.continuable, thread.ready, thread.journal = '', continues and checkpoint or '', id
end

local function refusal()
  if thread.created_ms == '' then
    return num(checkpoint) > 0 and { 'no_checkpoint', '' } or continues and { 'nothing_to_continue', '' }
  elseif thread.user_id ~= user then
    return { 'other_owner', thread.user_id }
  elseif thread.graph ~= graph then
    return { 'other_graph', thread.graph }
  end
  if num(checkpoint) > 0 then
    return refusal_to_go_back()
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
    run[move_name .. ':' .. attribute] = ARGV[12 + 4 * i + j]
  end
end
write('list', 'RPUSH', key('runs'), id)
if num(checkpoint) > 0 then
  go_back()
end
if num(delay_ms) > 0 then
  write('zset', 'ZADD', key('delayed'), text(now + delay_ms), id)
else
  take_in(id, verdict_on(kind, strategy))
end
local is_started = thread.active == id
if is_started and posts then
  post(29)
end
save()
return { is_started and 'started' or 'queued', '', is_started and not posts and dispatch_all() or {} }
