-- Makes a thread due no later than after a delay, and counts the touch.
-- KEYS     zset: thread by the moment it is due, in ms; hash: thread → touch
-- ARGV     thread, delay_ms, from when in ms (now if it is missing)
-- Keeps    9, 13. A touch is later than all before it, also those of an entry that was removed.

local clock = redis.call('TIME')
local touched = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0)
local touch = math.max(clock[1] * 1000000 + clock[2], touched + 1)
local from = ARGV[3] or clock[1] * 1000 + math.floor(clock[2] / 1000)

redis.call('ZADD', KEYS[1], 'LT', string.format('%.0f', from + ARGV[2]), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', touch))
