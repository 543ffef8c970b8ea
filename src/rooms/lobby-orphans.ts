import { setTimeout as delay } from "node:timers/promises";
import { matchMaker } from "@colyseus/core";
import type { App } from "../app.ts";
import { NIL_ID } from "../domain/kernel/ids.ts";
import { disconnectMember } from "../domain/social/lobbies/commands.ts";
import { findSocketMembers, SOCKET_LOBBIES_MAX, type SocketMembers } from "../domain/social/lobbies/state.ts";
import { logFailure } from "./live-room.ts";
import { transactIn } from "./mirror-room.ts";
import { lobbyRoomId } from "./room-ids.ts";

/** Time after a start in which clients can return to their lobbies. */
const FIRST_AFTER_MS = 15_000;
const EVERY_MS = 60_000;
/** Time in which listings that were lost with Redis are restored, in ms. */
const RELISTED_MS = 6_000;

/** Leaves out lobbies with a room: in this process, where no listing is needed, or in another one. */
const withoutRoom = async (found: readonly SocketMembers[]): Promise<SocketMembers[]> => {
  const idOf = ({ projectId, lobbyId }: SocketMembers): string => lobbyRoomId(projectId, lobbyId);
  const away = found.filter((one) => matchMaker.getLocalRoomById(idOf(one)) === undefined);
  const listed = await matchMaker.driver.findByIds(away.map(idOf));
  return away.filter((one) => !listed.has(idOf(one)));
};

/** Another process's room may only have lost its listing: it is listed again within RELISTED_MS. */
const stillWithoutRoom = async (app: App, orphans: readonly SocketMembers[]): Promise<SocketMembers[]> => {
  if (!app.peers || orphans.length === 0) return [...orphans];
  await delay(RELISTED_MS, undefined, { ref: false });
  return withoutRoom(orphans);
};

const disconnectAll = async (app: App, { projectId, lobbyId, playerIds }: SocketMembers): Promise<void> => {
  for (const playerId of playerIds)
    await transactIn(app, projectId)((work) => disconnectMember(work, { projectId, lobbyId }, playerId));
};

/**
 * Starts the grace period of members whose sockets ended with a process and whose lobby has no room since. If
 * there is a room, it does so itself.
 */
export const settleOrphans = async (app: App): Promise<void> => {
  let after = NIL_ID;
  for (;;) {
    const found = await app.transact((work) => findSocketMembers(work, after));
    const orphans = await stillWithoutRoom(app, await withoutRoom(found));
    for (const orphan of orphans) await disconnectAll(app, orphan);
    if (found.length < SOCKET_LOBBIES_MAX) return;
    after = found.at(-1)!.lobbyId;
  }
};

/** Looks for such members periodically, until it is ended. */
export const watchOrphans = async (app: App, signal: AbortSignal): Promise<void> => {
  const pause = (ms: number) => delay(ms, undefined, { ref: false, signal });
  for (let waitMs = FIRST_AFTER_MS; !signal.aborted; waitMs = EVERY_MS) {
    try {
      await pause(waitMs);
      await settleOrphans(app);
    } catch (err) {
      if (!signal.aborted) logFailure(app, err, { reread: "lobbies without rooms" });
    }
  }
};
