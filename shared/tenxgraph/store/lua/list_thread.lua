-- Puts a thread to the top of the listing.
-- KEYS[1]  zset: thread by its last change, in microseconds
-- ARGV     thread, NX to add it or XX to raise it: a straggler lists no deleted thread again

local clock = redis.call('TIME')
redis.call('ZADD', KEYS[1], ARGV[2], string.format('%.0f', clock[1] * 1000000 + clock[2]), ARGV[1])
