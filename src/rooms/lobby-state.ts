import { schema, type SchemaType, t } from "@colyseus/schema";
import type {
  LobbyMember,
  LobbyStatus,
  LobbyView,
  LobbyVisibility,
  MemberStatus,
} from "../domain/kernel/events/lobby-views.ts";
import { assignChanged, syncMap } from "./state-sync.ts";

/** `team` and `slot` are -1 for none; `data` is JSON text. */
export const LobbyMemberState = schema(
  {
    playerId: t.string(),
    externalUserId: t.string(),
    displayName: t.string(),
    status: t.string<MemberStatus>(),
    role: t.string<LobbyMember["role"]>(),
    isHost: t.boolean(),
    team: t.int16(),
    slot: t.int16(),
    data: t.string(),
    joinedAt: t.string(),
  },
  "LobbyMemberState",
);
export type LobbyMemberState = SchemaType<typeof LobbyMemberState>;

/**
 * A lobby as everybody in the room sees it; `privateData` reaches members only. Missing values are "", and
 * objects are JSON text: they change rarely and as a whole, and clients need no schema for them.
 */
export const LobbyState = schema(
  {
    id: t.string().default(""),
    code: t.string().default(""),
    name: t.string().default(""),
    mode: t.string().default(""),
    visibility: t.string<LobbyVisibility>().default("PUBLIC"),
    hasPasscode: t.boolean().default(false),
    status: t.string<LobbyStatus>().default("OPEN"),
    hostPlayerId: t.string().default(""),
    minPlayers: t.uint16().default(0),
    maxPlayers: t.uint16().default(0),
    memberCount: t.uint16().default(0),
    settings: t.string().default("{}"),
    metadata: t.string().default("{}"),
    version: t.uint32().default(0),
    channelId: t.string().default(""),
    matchId: t.string().default(""),
    startsAt: t.string().default(""),
    startedAt: t.string().default(""),
    endedAt: t.string().default(""),
    closeReason: t.string().default(""),
    results: t.string().default(""),
    expiresAt: t.string().default(""),
    createdAt: t.string().default(""),
    members: t.map(LobbyMemberState),
    privateData: t.string().default("{}").view(),
  },
  "LobbyState",
);
export type LobbyState = SchemaType<typeof LobbyState>;

const memberFields = (member: LobbyMember): Partial<LobbyMemberState> => ({
  playerId: member.playerId,
  externalUserId: member.externalUserId,
  displayName: member.displayName ?? "",
  status: member.status,
  role: member.role,
  isHost: member.isHost,
  team: member.team ?? -1,
  slot: member.slot ?? -1,
  data: JSON.stringify(member.data),
  joinedAt: member.joinedAt,
});

const textFields = (lobby: LobbyView): Partial<LobbyState> => ({
  hostPlayerId: lobby.hostPlayerId ?? "",
  channelId: lobby.channelId ?? "",
  matchId: lobby.matchId ?? "",
  startsAt: lobby.startsAt ?? "",
  startedAt: lobby.startedAt ?? "",
  endedAt: lobby.endedAt ?? "",
  closeReason: lobby.closeReason ?? "",
});

/** Updates `state` to show the whole lobby. In a view without `privateData` that field is left unchanged. */
export const showLobby = (state: LobbyState, lobby: LobbyView): void => {
  const { id, code, name, mode, visibility, hasPasscode, status, version } = lobby;
  const { minPlayers, maxPlayers, memberCount, expiresAt, createdAt, privateData } = lobby;
  assignChanged(state, { id, code, name, mode, visibility, hasPasscode, status, version });
  assignChanged(state, { minPlayers, maxPlayers, memberCount, expiresAt, createdAt });
  assignChanged(state, textFields(lobby));
  assignChanged(state, {
    settings: JSON.stringify(lobby.settings),
    metadata: JSON.stringify(lobby.metadata),
    results: lobby.results === null ? "" : JSON.stringify(lobby.results),
    ...(privateData === undefined ? {} : { privateData: JSON.stringify(privateData) }),
  });
  const members = new Map(lobby.members.map((member) => [member.playerId, memberFields(member)]));
  syncMap(state.members, members, () => new LobbyMemberState());
};
