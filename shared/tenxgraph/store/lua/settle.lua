-- Ends an attempt that has no update: a retry later, a failure, a question.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, token, status, delay_ms, reason, error, events, then for each interrupt: id, task, body
-- Returns  {1, dispatch}, or {0} when the attempt was fenced
-- Keeps    4, 6 (an outcome outlives its step), 7 (a stopped run parks its retries), 8.

local id, step, name, token, status, delay_ms, reason, err, events = unpack(ARGV, 1, 9)

local function wait_for_retry(task)
  local run = run_of(id)
  task.attempt, task['until'] = num(task.attempt) + 1, now + delay_ms
  run.reason = reason
  if run.stop ~= '' then
    task.status = 'parked'
  end
end

local function position_of(task)
  for i, other in ipairs(names_of(id)) do
    if other == task.name then
      return i
    end
  end
end

-- A question that was answered before stays answered, and the task runs again at once. Its place among the others is
-- that of its task in the plan: which sibling asked first is chance.
local function ask(task)
  local run, asked, is_answered = run_of(id), open(key('interrupts', id)), false
  local place = position_of(task) * 2 ^ 20
  for i = 10, #ARGV, 3 do
    local question = ARGV[i]
    if asked[question .. ':task'] == '' then
      run.asked = num(run.asked) + 1
      asked[question .. ':at'] = place + run.asked
    end
    asked[question .. ':task'], asked[question .. ':body'] = ARGV[i + 1], ARGV[i + 2]
    is_answered = is_answered or asked[question .. ':answer'] ~= ''
  end
  if is_answered then
    queue(task, num(task.attempt) + 1)
  else
    task.status = 'waiting'
  end
end

local function settle(task)
  outcomes_of(id)[name .. ':' .. token] = status
  add_events(id, events)
  if status == 'waiting' then
    ask(task)
  else
    task.status, task.error = status, err
  end
  if status == 'retry_wait' then
    wait_for_retry(task)
  end
  close_step(id)
end

local task = find(id, step, name)
if task and task.token == token and task.status == 'claimed' then
  settle(task)
  save()
elseif outcomes_of(id)[name .. ':' .. token] ~= status then
  hear_fenced(id, step, name, token)
  return { 0 }
end
return { 1, find(id, step, name) and dispatch({ name }) or freed_by(id) }
