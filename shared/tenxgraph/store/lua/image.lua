-- Reads the newest state, as far as the caller lacks it.
-- KEYS[1]  base key of the thread
-- ARGV     what the caller knows of the state (known_from)
-- Returns  the image (image_reply), or nothing when there is no such thread
-- Keeps    5 (one moment's state), 11.

return thread.created_ms ~= '' and image_reply(known_from(1))
