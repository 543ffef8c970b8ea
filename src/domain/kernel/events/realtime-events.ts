import type { ChatLine, ChatMessage, SanctionKind } from "./chat-views.ts";
import type { EntryChange, Json, PlayerRef } from "./events.ts";
import type {
  LobbyCloseReason,
  LobbyMember,
  LobbyResult,
  LobbyStatus,
  LobbyVisibility,
  Occurrence,
} from "./lobby-views.ts";

type BoardPeriod = { leaderboardKey: string; leaderboardId: string; periodKey: string; board: string };

/** A player's final rank when a board closed. */
export type FinalRank = PlayerRef & { displayName: string | null; rank: number; score: number };

/** The scores of all players under one value of a breakdown, and its place; equal ones share a rank. */
export type RankedValue = {
  rank: number;
  value: string;
  players: number;
  total: number;
  average: number;
  best: number;
};

/** Leaderboard events. None of these carries a `player_seq`. */
export type LeaderboardEvents = {
  "leaderboard.rank_changed": PlayerRef &
    BoardPeriod & {
      previousRank: number | null;
      newRank: number;
      direction: "UP" | "DOWN" | "NEW";
      score: number;
      crossed: number[];
      participants: number;
      reason: "BAND" | "DELTA" | "ENTERED";
    };
  "leaderboard.new_leader": BoardPeriod & {
    leader: PlayerRef & { displayName: string | null; score: number };
    previousLeader: (PlayerRef & { score: number }) | null;
    margin: number | null;
  };
  "leaderboard.period_started": BoardPeriod & { startsAt: string | null; endsAt: string | null };
  "leaderboard.period_closed": BoardPeriod & {
    participants: number;
    top: FinalRank[];
    prizesGranted: number;
    promoted: number;
    relegated: number;
    closedAt: string;
  };
  /** `values`: how many there are; `by`: what they are ranked by; `top`: the first ten. */
  "leaderboard.values_ranked": Omit<BoardPeriod, "board"> & {
    by: "total" | "best";
    values: number;
    top: RankedValue[];
    closedAt: string;
  };
  "leaderboard.score_held": PlayerRef &
    BoardPeriod & {
      score: number;
      violation: string;
      reviewId: string;
    };
  /** Internal: feeds the rank index. */
  "leaderboard.entries_changed": { periodId: string; entries: EntryChange[] };
  /** Internal: the definition or status of a board has changed. */
  "leaderboard.changed": { leaderboardId: string };
};

export type LobbyEvents = {
  "lobby.created": {
    lobbyId: string;
    code: string;
    name: string;
    mode: string;
    visibility: LobbyVisibility;
    hasPasscode: boolean;
    host: PlayerRef | null;
    minPlayers: number;
    maxPlayers: number;
    metadata: Json;
    createdVia: "API" | "PLAYER" | "QUICKPLAY";
    createdAt: string;
  };
  "lobby.started": {
    lobbyId: string;
    matchId: string;
    code: string;
    mode: string;
    host: PlayerRef | null;
    players: (PlayerRef & {
      displayName: string | null;
      team: number | null;
      slot: number | null;
      data: Json;
    })[];
    teams: { team: number; playerIds: string[] }[];
    metadata: Json;
    seed: string;
    startedAt: string;
  };
  "lobby.ended": {
    lobbyId: string;
    matchId: string | null;
    mode: string;
    previousStatus: Exclude<LobbyStatus, "CLOSED">;
    closeReason: LobbyCloseReason;
    startedAt: string | null;
    endedAt: string;
    durationSeconds: number | null;
    players: PlayerRef[];
    results: LobbyResult[] | null;
    metadata: Json;
  };
  "lobby.game_finished": {
    lobbyId: string;
    matchId: string;
    mode: string;
    startedAt: string;
    endedAt: string;
    durationSeconds: number;
    results: LobbyResult[];
    nextStatus: "OPEN" | "CLOSED";
  };
  "lobby.member_joined": { lobbyId: string; member: LobbyMember; memberCount: number };
  "lobby.member_left": {
    lobbyId: string;
    playerId: string;
    externalUserId: string;
    reason: "LEFT" | "KICKED" | "TIMEOUT";
    memberCount: number;
  };
  "lobby.host_changed": { lobbyId: string; previousHost: string | null; newHost: string };
  /** Internal, one for each version: notifies the rooms that mirror the lobby, and the list of open ones. */
  "lobby.changed": { lobbyId: string; version: number; occurrences: Occurrence[]; isListed: boolean };
};

export type ChatEvents = {
  "chat.message_sent": ChatMessage;
  "chat.message_reported": {
    reportId: string;
    channelId: string;
    seq: number;
    reporter: PlayerRef;
    reason: string;
    reports: number;
  };
  "chat.message_moderated": {
    channelId: string;
    seq: number;
    action: "MASKED" | "BLOCKED" | "HELD" | "REMOVED" | "RESTORED";
    by: "AUTO" | "MODERATOR" | "ADMIN";
    flags: string[];
  };
  "chat.player_sanctioned": PlayerRef & {
    sanctionId: string;
    kind: SanctionKind;
    /** null: in all channels, or in a private one. */
    channelId: string | null;
    isInPrivateChannel: boolean;
    /** null for a private channel. */
    reason: string | null;
    expiresAt: string | null;
  };
  /** Internal: updates for the readers of a channel that are not sent to webhooks. */
  "chat.changed": { channelId: string; lines: ChatLine[] };
};

/** A message on a player's stream without `seq`, which may be lost without harm. */
export type PlayerNotice =
  | {
      name: "lobby.invited";
      data: { lobbyId: string; code: string; from: PlayerRef | null; expiresAt: string };
    }
  | { name: "lobby.kicked"; data: { lobbyId: string; reason: string | null; banned: boolean } }
  | {
      name: "leaderboard.me";
      data: {
        leaderboardKey: string;
        periodKey: string;
        board: string;
        rank: number;
        previousRank: number | null;
        score: number;
        participants: number;
      };
    }
  | {
      name: "chat.sanction";
      data: { kind: "MUTE" | "BAN"; channelId: string | null; expiresAt: string | null; reason: string };
    };

/** A run of a saved report has ended. */
type ReportRunOver = { reportId: string; runId: string; name: string; report: string; dueAt: string };

export type ReportEvents = {
  "report.ready": ReportRunOver & {
    /** Local dates of `timezone`, both included. */
    range: { from: string; to: string; timezone: string };
    resultUrl: string;
  };
  "report.failed": ReportRunOver & { error: string };
};

/** Internal: carries a notice to the sockets of one player. */
export type NoticeEvents = { "player.notice": { playerId: string; notice: PlayerNotice } };
