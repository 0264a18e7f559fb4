-- Puts a task aside that no worker here can run; the pause doubles each time, six times at most.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, attempt, reason, pause_ms
-- Returns  1, or 0 when the task is no more to be given back
-- Keeps    6, 7 (a stopped run parks it), 10 (no death is counted), 13.

local id, step, name, attempt, reason, pause_ms = unpack(ARGV, 1, 6)

local task = find(id, step, name)
if not task or task.attempt ~= attempt then
  return 0
end
if task.status == 'queued' then
  put_aside(id, task, reason, pause_ms, 6)
  save()
end
return (task.status == 'retry_wait' or task.status == 'parked') and 1 or 0
