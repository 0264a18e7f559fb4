-- Reads hashes of one thread at one moment. A full server refuses to queue even reads for a transaction; this it runs.
-- KEYS     hashes
-- Returns  the fields and values of each

local found = {}

for i, path in ipairs(KEYS) do
  found[i] = redis.call('HGETALL', path)
end
return found
