-- Keeps data under its id, which follows from it.
-- KEYS[1]  base key of the thread
-- ARGV     run, step, task, token, id, data
-- Returns  1, or 0 when the attempt was fenced
-- Keeps    4, 6 (the same data under the same id is the same entry), 11 (once a thread), 12.

local id, step, name, token, media, data = unpack(ARGV, 1, 6)
local task = find(id, step, name)
if not task or task.token ~= token or task.status ~= 'claimed' then
  hear_fenced(id, step, name, token)
  return 0
end
write('hash', 'HSETNX', key('media'), media, data)
save()
return 1
