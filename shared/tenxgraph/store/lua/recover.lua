-- Does for one thread what depends on time: delayed runs, timeouts, retries, leases that ended, messages that seem lost.
-- KEYS[1]  base key of the thread
-- ARGV     grace_ms, max_deliveries, forgive_leases (1 or 0), max_lost_leases
-- Returns  {dispatch, overdue (as dispatch), {dispatched_ms of each}, next_due_ms or '', {run, step, then task, attempt of
--          each that was fenced}}
-- Keeps    4, 9 (whatever is not at rest has a next moment), 10, 13.

local grace_ms, max_deliveries, forgive_leases, max_lost_leases = num(ARGV[1]), num(ARGV[2]), ARGV[3] == '1', num(ARGV[4])
local DIED = 'mend it, then replay the run'
local LOST = 'its worker lived and was not heard; see that the node lets heartbeats through, then replay the run'
local next_due
local overdue, dispatched, expired = {}, {}, {}

local function look_again_at(at)
  next_due = math.min(next_due or at, at)
end

local function start_delayed()
  local delayed = key('delayed')
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', delayed, '-inf', text(now))) do
    write('zset', 'ZREM', delayed, id)
    take_in(id, verdict_on('late_' .. run_of(id).kind, run_of(id).strategy))
  end
  local later = redis.call('ZRANGEBYSCORE', delayed, '(' .. text(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if later[2] then
    look_again_at(num(later[2]))
  end
end

local function is_timed_out(id)
  local deadline = num(run_of(id).deadline_ms)
  if deadline > now then
    look_again_at(deadline)
  elseif deadline > 0 then
    finish(id, 'timed_out')
    return true
  end
  return false
end

local function end_as_dead(id, task, code, what, advice)
  local run, node = run_of(id), cjson.encode(task.node)
  local message = "node '" .. task.node .. "' " .. what .. ', last on ' .. task.worker .. ': ' .. advice
  local failure = '{"error":"NodeError","code":"%s","message":%s,"node":%s,"attempt":%s}'
  failure = failure:format(code, cjson.encode(message), node, task.attempt)
  run.reason = task.node .. ' ' .. what
  local event = '{"event":"error","step":%.0f,"node":%s,"attempt":%s,"data":%s}'
  add_events(id, event:format(num(run.step), node, task.attempt, failure))
  park(task)
  finish(id, 'dead', failure)
end

local function fence(id, task)
  expired[#expired + 1], expired[#expired + 2] = task.name, task.attempt
  local is_death = task.leaving == '' -- a worker that was told to end and is killed before it has was not killed by this
  if is_death then
    outcomes_of(id)[task.name .. ':' .. task.token] = 'died'
    task.deaths, task.lost = num(task.deaths) + 1, num(task.lost) + 1
  end
  discard(id, task)
  if is_death and num(task.deaths) >= max_deliveries then
    end_as_dead(id, task, 'NODE_DIED', 'died with its worker ' .. text(num(task.deaths)) .. ' times', DIED)
  elseif is_death and num(task.lost) >= max_lost_leases then -- whoever lives, and was not heard, would do so for ever
    end_as_dead(id, task, 'LEASE_LOST', 'lost its lease ' .. text(num(task.lost)) .. ' times', LOST)
  else
    try_again(id, task)
  end
end

local function suspect(task)
  local at = num(task.dispatched) + grace_ms * 2 ^ math.max(0, math.min(num(task.resends) - 1, 10))
  if at <= now then
    overdue[#overdue + 1], dispatched[#dispatched + 1] = task.name, task.dispatched
    at = now + grace_ms
  end
  look_again_at(at)
end

local function look_at(id, task)
  local till = num(task['until'])
  if task.status == 'queued' then
    suspect(task)
  elseif task.status == 'claimed' and till <= now and not forgive_leases then
    fence(id, task)
  elseif task.status == 'retry_wait' and till <= now then
    queue(task)
  elseif task.status == 'claimed' or task.status == 'retry_wait' then
    look_again_at(math.max(till, now + 1))
  end
end

local before = thread.active
start_delayed()
local id = thread.active
local fenced = { id, run_of(id).step }
if id ~= '' and not is_timed_out(id) and run_of(id).status ~= 'waiting' then
  for _, task in ipairs(list_of(names_of(id), id)) do
    if thread.active == id then
      look_at(id, task)
    end
  end
end
if thread.active ~= id then
  overdue, dispatched = {}, {}
end
if thread.active ~= before and num(run_of(thread.active).deadline_ms) > 0 then
  look_again_at(num(run_of(thread.active).deadline_ms))
end
if #queued > 0 then
  look_again_at(now + grace_ms)
end
save()
for _, value in ipairs(expired) do
  fenced[#fenced + 1] = value
end
return { dispatch(queued), dispatch(overdue), dispatched, next_due and text(next_due) or '', fenced }
