-- The places from before doors existed: where each session is now, and the threads that handoffs
-- opened. When a session left such a thread is not known, but not before its handoff.

INSERT INTO doors (address, session_no, platform, opened)
    SELECT b.address, b.session_no, p.name, b.bound FROM bindings b
    JOIN (SELECT 'local' AS name UNION SELECT 'web' UNION SELECT 'telegram' UNION SELECT 'discord'
          UNION SELECT 'slack' UNION SELECT 'matrix' UNION SELECT 'whatsapp' UNION SELECT 'signal') p
    ON b.address LIKE 'agent:main:' || p.name || ':%' WHERE true
    ON CONFLICT (address) DO NOTHING;

INSERT INTO doors (address, session_no, platform, opened, seq)
    SELECT h.thread, h.session_no, h.platform, h.finished, h.seq FROM handoffs h
    WHERE h.id IN (SELECT max(id) FROM handoffs WHERE state = 'completed' GROUP BY thread)
    AND length(h.thread) - length(replace(h.thread, ':', '')) = 5  -- a thread, not a chat
    ON CONFLICT (address) DO NOTHING;
