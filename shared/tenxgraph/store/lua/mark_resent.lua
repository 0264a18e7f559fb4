-- Records that an overdue task is sent again.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, attempt, dispatched_ms as it was read
-- Returns  1, or 0 when somebody else did, or it was claimed
-- Keeps    6 (two schedulers make one message), 13.

local id, step, name, attempt, dispatched = unpack(ARGV, 1, 5)

local task = find(id, step, name)
if not task or task.status ~= 'queued' or task.attempt ~= attempt or task.dispatched ~= dispatched then
  return 0
end
task.dispatched, task.resends = math.max(now, num(dispatched) + 1), num(task.resends) + 1
save()
return 1
