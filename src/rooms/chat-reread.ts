import type { App } from "../app.ts";
import type { ChannelRef } from "../domain/social/chat/channels.ts";
import { readLastSeqs } from "../domain/social/chat/messages.ts";
import { findReaders, readerKey } from "../domain/social/chat/readers.ts";
import type { LiveClient } from "./live-client.ts";

/** A chat room that is periodically compared with the database. */
export type OpenRoom = {
  ref: ChannelRef;
  /** Clients currently in the room. */
  present(): readonly LiveClient[];
  /**
   * Applies the result: the channel's newest seq, undefined when the channel no longer exists, and which
   * players of `present` may read it.
   */
  look(lastSeq: number | undefined, present: readonly LiveClient[], readers: ReadonlySet<string>): void;
};

const playersOf = (clients: readonly LiveClient[]): string[] => [
  ...new Set(clients.flatMap(({ auth }) => auth?.playerId ?? [])),
];

/** Takes two statements for all open rooms of this process. */
export const rereadRooms = async (app: App, rooms: readonly OpenRoom[]): Promise<void> => {
  // Clients that join during the query were admitted by the join itself.
  const asked = rooms.map((room) => {
    const present = room.present();
    return { room, present, players: playersOf(present) };
  });
  const { lastSeqs, readers } = await app.transact(async (work) => ({
    lastSeqs: await readLastSeqs(
      work,
      rooms.map(({ ref }) => ref),
    ),
    readers: await findReaders(
      work,
      asked.flatMap(({ room: { ref }, players }) => players.map((playerId) => ({ ...ref, playerId }))),
    ),
  }));
  for (const { room, present, players } of asked) {
    const { channelId } = room.ref;
    const mayRead = new Set(players.filter((playerId) => readers.has(readerKey(channelId, playerId))));
    room.look(lastSeqs.get(channelId), present, mayRead);
  }
};
