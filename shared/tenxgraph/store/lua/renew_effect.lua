-- Lengthens the lease of a reservation.
-- KEYS[1]  base key of the thread
-- ARGV     effect, nonce, lease_ms
-- Returns  1, or 0 when the effect is done, given up or another's
-- Keeps    12 (what was never reserved stays so), 13. The attempt may be fenced: what it makes is made all the same.

local effect, nonce, lease_ms = effect_of(ARGV[1]), ARGV[2], ARGV[3]

if effect.holder ~= nonce or effect.done_by ~= '' then
  return 0
end
effect['until'] = now + lease_ms
save()
return 1
