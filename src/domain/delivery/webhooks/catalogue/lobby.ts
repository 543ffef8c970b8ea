import { z } from "zod";
import type { EventType } from "../../../kernel/events/domain-events.ts";
import {
  LOBBY_STATUSES,
  LOBBY_VISIBILITIES,
  type LobbyMember,
  type LobbyResult,
  MEMBER_STATUSES,
  OUTCOMES,
} from "../../../kernel/events/lobby-views.ts";
import type { EntriesOf } from "./entry.ts";
import { Data, Id, Player, PLAYER, Text, Time } from "./shapes.ts";

type LobbyType = Exclude<Extract<EventType, `lobby.${string}`>, "lobby.changed">;

const Member: z.ZodType<LobbyMember> = z.object({
  ...PLAYER,
  displayName: Text.nullable(),
  status: z.enum(MEMBER_STATUSES),
  isHost: z.boolean(),
  role: z.enum(["PLAYER", "SPECTATOR"]),
  team: z.int().nullable(),
  slot: z.int().nullable(),
  data: Data,
  joinedAt: Time,
});
const Result = z.object({
  ...PLAYER,
  team: z.int().nullable(),
  rank: z.int().nullable(),
  outcome: z.enum(OUTCOMES),
  score: z.number().nullable(),
  stats: Data.optional(),
}) as z.ZodType<LobbyResult>;
const OLD_STATUSES = LOBBY_STATUSES.filter((status) => status !== "CLOSED");
const CLOSE_REASONS = [
  "COMPLETED",
  "HOST_CLOSED",
  "HOST_LEFT",
  "EMPTY",
  "EXPIRED",
  "ABORTED",
  "ADMIN",
] as const;

const games = {
  "lobby.created": {
    occurs: "a lobby was created",
    data: z.object({
      lobbyId: Id,
      code: Text,
      name: Text,
      mode: Text,
      visibility: z.enum(LOBBY_VISIBILITIES),
      hasPasscode: z.boolean(),
      host: Player.nullable(),
      minPlayers: z.int(),
      maxPlayers: z.int(),
      metadata: Data,
      createdVia: z.enum(["API", "PLAYER", "QUICKPLAY"]),
      createdAt: Time,
    }),
  },
  "lobby.started": {
    occurs: "a lobby's game started",
    data: z.object({
      lobbyId: Id,
      matchId: Id,
      code: Text,
      mode: Text,
      host: Player.nullable(),
      players: z.array(
        z.object({
          ...PLAYER,
          displayName: Text.nullable(),
          team: z.int().nullable(),
          slot: z.int().nullable(),
          data: Data,
        }),
      ),
      teams: z.array(z.object({ team: z.int(), playerIds: z.array(Id) })),
      metadata: Data,
      seed: Text.meta({ description: "The same for all of the game: for what chance decides" }),
      startedAt: Time,
    }),
  },
  "lobby.game_finished": {
    occurs: "a game ended with results; the lobby may go on",
    data: z.object({
      lobbyId: Id,
      matchId: Id,
      mode: Text,
      startedAt: Time,
      endedAt: Time,
      durationSeconds: z.number(),
      results: z.array(Result),
      nextStatus: z.enum(["OPEN", "CLOSED"]),
    }),
  },
  "lobby.ended": {
    occurs: "a lobby closed",
    data: z.object({
      lobbyId: Id,
      matchId: Id.nullable(),
      mode: Text,
      previousStatus: z.enum(OLD_STATUSES),
      closeReason: z.enum(CLOSE_REASONS),
      startedAt: Time.nullable(),
      endedAt: Time,
      durationSeconds: z.number().nullable(),
      players: z.array(Player),
      results: z.array(Result).nullable(),
      metadata: Data,
    }),
  },
} satisfies Partial<EntriesOf<LobbyType>>;

export const lobbyTypes: EntriesOf<LobbyType> = {
  ...games,
  "lobby.member_joined": {
    occurs: "a player joined a lobby",
    data: z.object({ lobbyId: Id, member: Member, memberCount: z.int() }),
  },
  "lobby.member_left": {
    occurs: "a player left a lobby, or was sent away",
    data: z.object({
      lobbyId: Id,
      playerId: Id,
      externalUserId: Text,
      reason: z.enum(["LEFT", "KICKED", "TIMEOUT"]),
      memberCount: z.int(),
    }),
  },
  "lobby.host_changed": {
    occurs: "a lobby has another host",
    data: z.object({ lobbyId: Id, previousHost: Id.nullable(), newHost: Id }),
  },
};
