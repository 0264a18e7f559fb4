-- Answers a waiting run, once.
-- KEYS[1]  base key of the thread
-- ARGV     run, resume_id, digest, input, events, then for each answer: interrupt id, answer
-- Returns  {1, {}, id of the last event before, dispatch}, or {0, ids that do not wait}
-- Keeps    6 (a repeat is known by the resume id, here and at the admission), 8 (one of many wins).

local id, resume_id, digest, input, events = unpack(ARGV, 1, 5)
local run, asked = run_of(id), open(key('interrupts', id))
local has_answers = #ARGV > 5

local function ids_that(test)
  local ids = {}
  for i = 6, #ARGV, 2 do
    if test(ARGV[i]) then
      ids[#ids + 1] = ARGV[i]
    end
  end
  return ids
end

local function is_not_waiting(question)
  return asked[question .. ':task'] == '' or asked[question .. ':answer'] ~= ''
end

local function may_resume()
  if has_answers then
    return run.stop == ''
  end
  return run.status == 'waiting' and run.wait ~= 'question'
end

local function last_event()
  local last = redis.call('XREVRANGE', key('events', id), '+', '-', 'COUNT', 1)[1]
  return last and last[1] or ''
end

local function answer()
  local again, names = { [PLAN] = not has_answers }, {}
  for i = 6, #ARGV, 2 do
    again[asked[ARGV[i] .. ':task']] = true
  end
  for _, name in ipairs(thread.active == id and names_of(id) or {}) do
    names[#names + 1] = again[name] and name or nil
  end
  return { 1, {}, run['resumed:' .. resume_id]:sub(2), dispatch(names) }
end

if run['resumed:' .. resume_id] ~= '' then
  return answer()
end
if run.created_ms == '' then
  return { 0, {} }
end
if thread.active ~= id or not may_resume() then
  return { 0, ids_that(function() return true end) }
end
local missing = ids_that(is_not_waiting)
if #missing > 0 then
  return { 0, missing }
end

run['resumed:' .. resume_id] = '=' .. last_event()
set_status(run, 'running')
open(key('resumes'))[resume_id] = digest .. ':' .. id
add_events(id, events)
if not has_answers then
  run.input = input
  queue(new_plan(id, 'resume'))
end
for i = 6, #ARGV, 2 do
  asked[ARGV[i] .. ':answer'] = '=' .. ARGV[i + 1] -- an empty answer is an answer
  local task = task_of(id, asked[ARGV[i] .. ':task'])
  if task.status == 'waiting' then
    queue(task, num(task.attempt) + 1)
  end
end
save()
return answer()
