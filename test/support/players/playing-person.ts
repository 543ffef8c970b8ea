import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { newId } from "../../../src/domain/kernel/ids.ts";
import { must } from "../http/client.ts";
import { eventually } from "../eventually.ts";
import type { Players } from "./players.ts";

/** Tables in which rows of several players, or of others, name the person. */
export const OTHERS = [
  "lobbies",
  "lobby_matches",
  "chat_channels",
  "chat_messages",
  "inbox_messages",
  "outbox",
] as const;

/** The person to be told of: every text of theirs contains `mark`. */
export type Playing = { id: string; ext: string; mark: string };

/** Has a person lead boards, play a match and be written of, so that many rows of others name them. */
export const playAs = async (players: Players, person: Playing): Promise<void> => {
  const [other, third] = [await players.add(), await players.add()];
  await fillPage(players);
  await leadBoards(players, person, other.id);
  const guests = { other: other.id, third: third.id };
  await playMatch(players, person, guests);
  await leaveOpen(players, person, guests.other);
  await beMentioned(players, person, other);
};

/** What names the person comes after more rows than one step looks at. */
const fillPage = async (players: Players): Promise<void> => {
  const ids = JSON.stringify(Array.from({ length: 2_100 }, () => newId()));
  await players.query(sql`
    insert into outbox (project_id, id, type, data, created_at)
    select ${players.projectId}::uuid, id::uuid, 'rule.loop_detected', '{}', now()
    from json_array_elements_text(${ids}::json) as id`);
};

/** First on a period that closes, and the leader before of one that goes on. */
const leadBoards = async (players: Players, { id, mark }: Playing, other: string): Promise<void> => {
  const score = async (key: string, playerId: string, points: number): Promise<void> => {
    const submitted = { playerId, score: points, meta: { replay: playerId === id ? `meta-${mark}` : "x" } };
    must(await players.post(`/leaderboards/${key}/scores`, submitted), 200);
  };
  const definition = { metric: { source: "CUSTOM" }, operator: "BEST", period: { kind: "DAILY" } };
  const [closing, led] = [`c${randomUUID()}`.slice(0, 20), `l${randomUUID()}`.slice(0, 20)];
  const isHeld = { bounds: { max: 100, onViolation: "HOLD" } };
  for (const key of [closing, led])
    must(await players.post("/leaderboards", { key, name: key, ...definition, ...isHeld }), 201);
  await score(closing, id, 9);
  await score(closing, other, 8);
  const [period] = must(await players.get(`/leaderboards/${closing}/periods`), 200).data;
  must(await players.post(`/leaderboards/${closing}/reset`, {}), 200);
  const results = `/leaderboards/${closing}/periods/${period.key}/results`;
  await eventually(async () => (await players.get(results)).status === 200);
  type Line = { data: { leader?: { playerId: string } } };
  const leaderIs = (who: string) =>
    eventually(async (): Promise<boolean> => {
      const { data } = must(await players.get(`/leaderboards/${led}/feed`), 200);
      return (data as Line[]).some((line) => line.data.leader?.playerId === who);
    });
  await score(led, id, 9);
  await leaderIs(id);
  await score(led, other, 10);
  await leaderIs(other);
  await score(led, id, 1_000);
};

/** Hosts a lobby, invites into it and plays, with texts wherever a lobby takes any. */
const playMatch = async (
  players: Players,
  { id, mark }: Playing,
  { other, third }: { other: string; third: string },
): Promise<void> => {
  const opened = must(
    await players.post("/lobbies", {
      hostPlayerId: id,
      mode: "duel",
      name: `lobby-${mark}`.slice(0, 64),
      maxPlayers: 4,
      metadata: { note: `lobby-metadata-${mark}` },
      privateData: { note: `lobby-private-${mark}` },
      settings: { countdownSeconds: 0, readyPolicy: "HOST" },
    }),
    201,
  );
  const act = async (what: string, body: object) =>
    must(await players.post(`/lobbies/${opened.id}/${what}`, body), 200);
  await act("invites", { playerId: id, playerIds: [third] });
  await act("join", { playerId: other });
  must(
    await players.patch(`/lobbies/${opened.id}/members/${id}`, {
      actingPlayerId: id,
      data: { note: `seat-${mark}` },
    }),
    200,
  );
  const { matchId } = await act("start", { playerId: id });
  await act("end", {
    matchId,
    results: [
      { playerId: id, outcome: "WIN", stats: { note: `stats-${mark}` } },
      { playerId: other, outcome: "LOSS", stats: { kills: 3 } },
    ],
  });
};

/** Is in the lobby of another, which goes on. */
const leaveOpen = async (players: Players, { id, mark }: Playing, other: string): Promise<void> => {
  const lobby = must(
    await players.post("/lobbies", { hostPlayerId: other, mode: "trio", maxPlayers: 4 }),
    201,
  );
  const joining = { playerId: id, data: { note: `seat-${mark}` } };
  must(await players.post(`/lobbies/${lobby.id}/join`, joining), 200);
};

/** Mentions another, whose inbox has a note of it then, and is mentioned by name. */
const beMentioned = async (
  players: Players,
  { id, ext, mark }: Playing,
  other: { id: string; ext: string },
): Promise<void> => {
  const { id: channel } = must(await players.post("/chat/channels", { key: `c-${randomUUID()}` }), 201);
  const say = async (playerId: string, content: string) =>
    must(await players.post(`/chat/channels/${channel}/messages`, { playerId, content }), 201);
  await say(id, `@${other.ext} mention-${mark}`);
  await say(other.id, `@${ext}: well played, @somebody`);
};

/** The stats in the results of a player's matches. */
export const statsOf = async (players: Players, playerId: string): Promise<(object | undefined)[]> => {
  const played = JSON.stringify([playerId]);
  const matches = await players.query(sql<{ results: { stats?: object }[] }>`
    select results from lobby_matches
    where project_id = ${players.projectId} and players @> ${played}::jsonb`);
  return matches.flatMap(({ results }) => results.map(({ stats }) => stats));
};
