import { schema, type SchemaType, t } from "@colyseus/schema";

/** State that every client sees without a request; `displayName` is empty when the player has none. */
export const PlayerState = schema(
  {
    playerId: t.string(),
    externalUserId: t.string(),
    displayName: t.string().default(""),
    xp: t.number().default(0),
    level: t.uint32().default(1),
    seq: t.number().default(0),
  },
  "PlayerState",
);
export type PlayerState = SchemaType<typeof PlayerState>;

/** The fields that the stream of a player sets. */
export type Fields = Pick<
  PlayerState,
  "playerId" | "externalUserId" | "displayName" | "xp" | "level" | "seq"
>;
