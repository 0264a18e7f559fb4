-- Notes that an effect is done; the first wins.
-- KEYS[1]  base key of the thread
-- ARGV     effect, nonce, result
-- Returns  1 when this result is kept, or 0
-- Keeps    4 (only what was reserved, but also after a fence or a cancel), 6, 12 (a deleted thread has no nonces).

local name, nonce, result = unpack(ARGV, 1, 3)
local effect = effect_of(name)

if effect.done_by == '' and ('\n' .. effect.nonces):find('\n' .. nonce .. '\n', 1, true) then
  effect.done_by, effect.result = nonce, '=' .. result -- an empty result is a result
  save()
end
return effect.done_by == nonce and 1 or 0
