-- Lengthens a lease.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, token, lease_ms
-- Returns  {1, stop request or ''}, or {0} when the attempt was fenced
-- Keeps    4, 13.

local id, step, name, token, lease_ms = unpack(ARGV, 1, 5)

local task = find(id, step, name)
if not task or task.token ~= token or task.status ~= 'claimed' then
  return { 0 }
end
task['until'] = now + lease_ms
save()
return { 1, run_of(id).stop }
