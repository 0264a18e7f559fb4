-- Lengthens a lease.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, token, lease_ms, leaving (1 or 0)
-- Returns  {1, stop request or ''}, or {0} when the attempt was fenced
-- Keeps    4, 10 (who was fenced and asks did not die), 13.

local id, step, name, token, lease_ms, leaving = unpack(ARGV, 1, 6)

local task = find(id, step, name)
if not task or task.token ~= token or task.status ~= 'claimed' then
  hear_fenced(id, step, name, token)
  return { 0 }
end
task['until'], task.leaving = now + lease_ms, leaving == '1' and 1 or ''
save()
return { 1, run_of(id).stop }
