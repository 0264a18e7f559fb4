-- Appends events of a living attempt, once.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, token, number (one more with each emission of the attempt), events
-- Returns  1, or 0 when the attempt was fenced
-- Keeps    4, 6 (a number that was there before appends nothing), 10.

local id, step, name, token, number, events = unpack(ARGV, 1, 6)

local task = find(id, step, name)
if not task or task.token ~= token or task.status ~= 'claimed' then
  hear_fenced(id, step, name, token)
  return 0
end
if num(number) > num(task.emitted) then
  task.emitted = number
  add_events(id, events)
  save()
end
return 1
