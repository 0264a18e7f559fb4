-- Hands in a task's update; the one that empties the set of missing tasks takes the advance under its own token.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, token, lease_ms, update, events, then what the caller knows of the state (known_from)
-- Returns  {1, dispatch, claim of the advance if it is the caller's}, or {0} when the attempt was fenced
-- Keeps    2 (only a claimed task becomes committed), 4 (judged by the token, never by the lease), 6 (an outcome outlives its step), 8.

local id, step, name, token, lease_ms, update, events = unpack(ARGV, 1, 7)

local function forget_questions()
  local asked = open(key('interrupts', id))
  for field, value in pairs(all_of(asked)) do
    local question = field:match('^(.*):task$')
    if question and value == name then
      for _, attribute in ipairs({ ':task', ':body', ':answer', ':at' }) do
        asked[question .. attribute] = ''
      end
    end
  end
end

local function settle(task)
  task.status, task.error = 'committed', ''
  open(key('updates', id), true)[name] = update
  outcomes_of(id)[name .. ':' .. token] = 'committed'
  forget_questions()
  add_events(id, events)
  if not all_are(COMMITTED, node_names_of(id), id) then
    return close_step(id)
  end
  local worker, plan = task.worker, new_plan(id, 'advance')
  plan.status, plan.token, plan.worker = 'claimed', token, worker
  plan['until'], plan.first = now + lease_ms, now
end

local task = find(id, step, name)
if task and task.token == token and task.status == 'claimed' then
  settle(task)
  save()
elseif outcomes_of(id)[name .. ':' .. token] ~= 'committed' then
  hear_fenced(id, step, name, token)
  return { 0 }
end
local plan = task_of(id, PLAN)
if thread.active == id and plan.token == token and plan.status == 'claimed' then
  return { 1, {}, claim_reply(id, plan, known_from(8)) }
end
return { 1, freed_by(id) }
