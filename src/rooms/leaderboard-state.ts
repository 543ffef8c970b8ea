import { type ArraySchema, schema, type SchemaType, t } from "@colyseus/schema";
import type { BoardLine } from "./board-reader.ts";
import { assignChanged } from "./state-sync.ts";

export const BoardRow = schema(
  {
    rank: t.uint32(),
    playerId: t.string(),
    externalUserId: t.string(),
    displayName: t.string(),
    score: t.number(),
  },
  "BoardRow",
);
export type BoardRow = SchemaType<typeof BoardRow>;

/** One watcher's own place; `rank` is 0 without an entry. */
export const BoardPlace = schema(
  { rank: t.uint32().default(0), score: t.number().default(0), rows: t.array(BoardRow) },
  "BoardPlace",
);
export type BoardPlace = SchemaType<typeof BoardPlace>;

export const LeaderboardState = schema(
  {
    leaderboardKey: t.string().default(""),
    name: t.string().default(""),
    status: t.string().default(""),
    /** The value of the breakdown; "" without one. */
    board: t.string().default(""),
    /** The window that is shown: that which runs now. */
    periodKey: t.string().default(""),
    /** When it ends, as ISO 8601; "" for never. */
    endsAt: t.string().default(""),
    size: t.number().default(0),
    top: t.array(BoardRow),
    /** By session id; each client sees its own only. */
    me: t.map(BoardPlace).view(),
  },
  "LeaderboardState",
);
export type LeaderboardState = SchemaType<typeof LeaderboardState>;

/** Overwrites rows in place, so that only what changed travels. @returns whether anything did */
export const syncRows = (rows: ArraySchema<BoardRow>, lines: readonly BoardLine[]): boolean => {
  // Each read of a row by its index would pass a proxy.
  const held = [...rows];
  let isChanged = held.length !== lines.length;
  for (const [i, line] of lines.entries()) {
    const row = held[i];
    if (!row) rows.push(new BoardRow().assign(line));
    else if (assignChanged(row, line)) isChanged = true;
  }
  for (let n = held.length; n > lines.length; n--) rows.pop();
  return isChanged;
};
