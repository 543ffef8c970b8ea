// Stays in a room for as long as the server lets it: for browsers and Node.
import { Client } from "@colyseus/sdk";

/** Close codes of a room, and statuses of a refused join, after which trying again is of no use. */
const FINAL = new Set([4000, 4403, 400, 403, 404, 409, 413, 426]);
const PAUSE_MIN_MS = 1_000;
const PAUSE_MAX_MS = 30_000;

/**
 * Joins a room, and joins it again whenever it is lost. `listen(room)` is called after each join,
 * `end(why)` once: when a final answer came, which `why` tells, or after `leave()`, without one.
 */
export const stay = async ({ url, fetchToken }, name, options, { listen, end }) => {
  let room, timer, pauseMs, isLeaving, isOver;
  const over = (why) => void (isOver ||= (end(isLeaving ? undefined : why), true));
  const join = async () => {
    const client = new Client(url);
    client.auth.token = await fetchToken(); // your backend asks POST /api/v1/auth/ws-token for it
    room = await client.joinOrCreate(name, options());
    const joinedAt = Date.now();
    const renew = async () => room.request("session.renew", { token: await fetchToken() });
    room.onMessage("session.expiring", () => void renew().catch(() => {})); // else it closes with 4401
    room.onMessage("*", () => {}); // what this game does not show
    room.onLeave((code, why) => {
      if (Date.now() - joinedAt > PAUSE_MAX_MS) pauseMs = undefined; // it was in for a while
      if (isLeaving || FINAL.has(code)) over(why);
      else later();
    });
    room.onReconnect(() => void (isLeaving && room.leave())); // it left while the connection was lost
    listen(room);
    if (isLeaving) await room.leave();
  };
  const again = () => void join().catch((error) => (FINAL.has(error.code) ? over(error.message) : later()));
  const later = () => {
    if (isLeaving) return over();
    pauseMs = Math.min((pauseMs ?? PAUSE_MIN_MS / 2) * 2, PAUSE_MAX_MS);
    timer = setTimeout(again, pauseMs * (0.5 + Math.random())); // not all clients at once
  };
  await join();
  return {
    request: (type, payload) => room.request(type, payload),
    leave: async () => {
      isLeaving = true;
      clearTimeout(timer);
      if (room.connection.isOpen) await room.leave();
      over();
    },
  };
};
