import type { App } from "../app.ts";
import { readStreamHeads, type StreamHead, type StreamRef } from "../domain/delivery/outbox/stream.ts";

/** A player's room that is periodically compared with the database. */
export type OpenRoom = { ref: StreamRef; look(head: StreamHead | undefined): void };

const keyOf = ({ projectId, playerId }: StreamRef): string => `${projectId}:${playerId}`;

/** Takes one query for all open rooms of this process. */
export const rereadRooms = async (app: App, rooms: readonly OpenRoom[]): Promise<void> => {
  const heads = await app.transact((work) =>
    readStreamHeads(
      work,
      rooms.map(({ ref }) => ref),
    ),
  );
  const byKey = new Map(heads.map((head) => [keyOf(head), head]));
  for (const room of rooms) room.look(byKey.get(keyOf(room.ref)));
};
