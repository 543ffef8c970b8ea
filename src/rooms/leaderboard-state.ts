import { type ArraySchema, schema, type SchemaType, t } from "@colyseus/schema";
import type { BoardLine } from "./board-reader.ts";
import { assignChanged } from "./state-sync.ts";

export const BoardRow = schema(
  {
    rank: t.uint32(),
    playerId: t.string(),
    externalUserId: t.string(),
    displayName: t.string(),
    score: t.float64(),
  },
  "BoardRow",
);
export type BoardRow = SchemaType<typeof BoardRow>;

/** One watcher's own standing; `rank` is 0 without an entry. */
export const BoardPlace = schema(
  { rank: t.uint32().default(0), score: t.float64().default(0), rows: t.array(BoardRow) },
  "BoardPlace",
);
export type BoardPlace = SchemaType<typeof BoardPlace>;

export const LeaderboardState = schema(
  {
    leaderboardKey: t.string().default(""),
    name: t.string().default(""),
    status: t.string().default(""),
    /** Value of the breakdown; "" without one. */
    board: t.string().default(""),
    /** The displayed window: the current one. */
    periodKey: t.string().default(""),
    /** End of the window, as ISO 8601; "" for never. */
    endsAt: t.string().default(""),
    size: t.number().default(0),
    top: t.array(BoardRow),
    /** By session id; each client sees only its own. */
    me: t.map(BoardPlace).view(),
  },
  "LeaderboardState",
);
export type LeaderboardState = SchemaType<typeof LeaderboardState>;

/** Overwrites rows in place, so that only changes are transmitted. @returns whether anything changed */
export const syncRows = (rows: ArraySchema<BoardRow>, lines: readonly BoardLine[]): boolean => {
  // Each access to a row by index would go through a proxy.
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
