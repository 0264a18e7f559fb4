-- Asks a run to end after the step in flight; ends it at once when none is.
-- KEYS[1]  base key of the thread
-- ARGV     run, events
-- Returns  {status of the run or '', dispatch}
-- Keeps    6, 7 (retry waits are parked; unclaimed siblings of a step in flight still run), 9.

local id, events = unpack(ARGV, 1, 2)
local run = run_of(id)

if run.created_ms == '' then
  return { '', {} }
end
if run.ended_ms ~= '' or run.stop ~= '' then
  return { run.status, freed_by(id) }
end
add_events(id, events)
if thread.active == id then
  stop_active(id)
else
  run.stop = 'stop'
  finish_waiting(id, 'stopped')
end
save()
return { run.status, freed_by(id) }
