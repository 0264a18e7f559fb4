-- Ends an attempt that its worker gives up in order: no death, and the next attempt is ready at once.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, token
-- Returns  {1, dispatch}, or {0} when the attempt was over already
-- Keeps    4 (fenced from here on), 6 (an outcome outlives its step), 7 (a stopped run parks it), 10 (no death is counted).

local id, step, name, token = unpack(ARGV, 1, 4)

local task = find(id, step, name)
if task and task.token == token and task.status == 'claimed' then
  outcomes_of(id)[name .. ':' .. token] = 'handed_back'
  discard(id, task)
  try_again(id, task)
  save()
elseif outcomes_of(id)[name .. ':' .. token] ~= 'handed_back' then
  hear_fenced(id, step, name, token)
  return { 0 }
end
return { 1, find(id, step, name) and dispatch({ name }) or freed_by(id) }
