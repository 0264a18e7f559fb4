-- Appends events of a living attempt.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, token, events
-- Returns  1, or 0 when the attempt was fenced
-- Keeps    4, 10.

local id, step, name, token, events = unpack(ARGV, 1, 5)

local task = find(id, step, name)
if not task or task.token ~= token or task.status ~= 'claimed' then
  hear_fenced(id, step, name, token)
  return 0
end
add_events(id, events)
save()
return 1
