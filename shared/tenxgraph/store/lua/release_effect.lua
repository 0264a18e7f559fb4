-- Gives a reservation up: whoever makes the effect ended without a result.
-- KEYS[1]  base key of the thread
-- ARGV     effect, nonce
-- Returns  1, or 0 when the effect is done or another's
-- Keeps    6 (a repeat is answered the same), 12 (what was never reserved stays so).

local effect, nonce = effect_of(ARGV[1]), ARGV[2]

if effect.holder == nonce and effect.done_by == '' then
  effect.holder, effect.released = '', nonce
  save()
end
return effect.released == nonce and 1 or 0
