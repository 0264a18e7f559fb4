-- Asks a run to end after the step in flight; ends it at once when none is.
-- KEYS[1]  base key of the thread
-- ARGV     run, events
-- Returns  {status of the run or '', dispatch}
-- Keeps    6, 7 (retry waits are parked; unclaimed siblings of a step in flight still run), 9.

local id, events = unpack(ARGV, 1, 2)
local run = run_of(id)

local function is_in_flight(tasks)
  for _, task in ipairs(tasks) do
    if task.status == 'claimed' or task.status == 'committed' then
      return true
    end
  end
  return false
end

local function stop_active()
  local tasks = list_of(names_of(id), id)
  if run.status == 'waiting' or not is_in_flight(tasks) then
    return finish(id, 'stopped')
  end
  run.status = 'stopping'
  for _, task in ipairs(tasks) do
    if task.status == 'retry_wait' then
      task.status = 'parked'
    end
  end
  close_step(id)
end

if run.created_ms == '' then
  return { '', {} }
end
if run.ended_ms ~= '' or run.stop ~= '' then
  return { run.status, freed_by(id) }
end
add_events(id, events)
run.stop = 'stop'
if thread.active == id then
  stop_active()
else
  finish_waiting(id, 'stopped')
end
save()
return { run.status, freed_by(id) }
