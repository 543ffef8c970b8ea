import { type RawBuilder, sql } from "kysely";
import { countRows, type Total } from "../../kernel/counting.ts";
import { notFound } from "../../kernel/errors.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import type { Work } from "../../kernel/work.ts";
import { lobbyFor } from "./rights.ts";
import { readPeople, showLobby } from "./show.ts";
import { getLobby, type LobbyRef, readLobbies } from "./state.ts";
import type { LobbyActor, LobbyStatus, LobbyView, LobbyVisibility } from "../../kernel/events/lobby-views.ts";

/**
 * Returns the lobby as `actor` may see it: a private one is visible to everybody who knows its id, but only
 * members and servers see `privateData`.
 * @throws DomainError NOT_FOUND
 */
export const readLobby = async (work: Work, ref: LobbyRef, actor: LobbyActor): Promise<LobbyView> => {
  const lobby = await getLobby(work, ref);
  const people = await readPeople(work, [lobby]);
  return lobbyFor(showLobby(lobby, { people, isPrivate: true }), actor);
};

/**
 * Returns the lobby that currently has a code; codes of closed ones are invalid. @throws DomainError
 * NOT_FOUND
 */
export const findLobbyId = async ({ db }: Work, projectId: string, code: string): Promise<string> => {
  const { rows } = await sql<{ id: string }>`
    select id from lobbies
    where project_id = ${projectId} and code = ${code.toUpperCase()} and status <> 'CLOSED'`.execute(db);
  if (!rows[0]) throw notFound("lobby");
  return rows[0].id;
};

/** Returns the versions of many lobbies by id, in one statement; deleted ones are absent. */
export const readLobbyVersions = async (
  { db }: Work,
  refs: readonly LobbyRef[],
): Promise<Map<string, number>> => {
  const { rows } = await sql<{ id: string; version: number }>`
    select l.id, l.version
    from json_to_recordset(${JSON.stringify(refs)}::json) as x("projectId" uuid, "lobbyId" uuid)
    join lobbies l on l.project_id = x."projectId" and l.id = x."lobbyId"`.execute(db);
  return new Map(rows.map(({ id, version }) => [id, version]));
};

export const LOBBY_SORTS = ["createdAt", "updatedAt", "memberCount"] as const;

export type ListLobbies = PageQuery & {
  mode?: string | undefined;
  status: LobbyStatus;
  visibility?: LobbyVisibility | undefined;
  hasSpace?: boolean | undefined;
  /** Required metadata, by key. */
  meta?: Readonly<Record<string, string>> | undefined;
  sort: (typeof LOBBY_SORTS)[number];
  order: "asc" | "desc";
};

const SORTS: Readonly<Record<ListLobbies["sort"], RawBuilder<unknown>>> = {
  createdAt: sql`l.created_at`,
  updatedAt: sql`l.updated_at`,
  memberCount: sql`l.member_count`,
};

/** A query only has texts: `5` and `true` also match the number and the boolean. */
const isLiteral = (text: string): boolean => /^(true|false|-?\d{1,15}(\.\d{1,15})?)$/.test(text);

const hasMeta = (key: string, text: string): RawBuilder<unknown> => {
  const holds = (value: unknown) => sql`l.metadata @> ${JSON.stringify({ [key]: value })}::jsonb`;
  if (!isLiteral(text)) return holds(text);
  return sql`(${holds(text)} or ${holds(JSON.parse(text.replace(/^(-?)0+(?=\d)/, "$1")))})`;
};

const whereOf = (projectId: string, actor: LobbyActor, query: ListLobbies): RawBuilder<unknown> => {
  const parts = [sql`l.project_id = ${projectId}`, sql`l.status = ${query.status}`];
  // Players find private ones by id, code or invitation.
  if (actor.kind === "PLAYER") parts.push(sql`l.visibility = 'PUBLIC'`);
  if (query.visibility !== undefined) parts.push(sql`l.visibility = ${query.visibility}`);
  if (query.mode !== undefined) parts.push(sql`l.mode = ${query.mode}`);
  if (query.hasSpace === true) parts.push(sql`l.member_count < l.max_players`);
  if (query.hasSpace === false) parts.push(sql`l.member_count >= l.max_players`);
  for (const [key, text] of Object.entries(query.meta ?? {})) parts.push(hasMeta(key, text));
  return sql`where ${sql.join(parts, sql` and `)}`;
};

/** `stats` may be large, and a page has many lobbies: they are only returned for a single lobby. */
const withoutStats = (lobby: LobbyView): LobbyView => ({
  ...lobby,
  results: lobby.results?.map(({ stats: _stats, ...result }) => result) ?? null,
});

/**
 * Lists lobbies without `privateData` and the `stats` of results, with the total number. Players see public
 * ones.
 */
export const listLobbies = async (
  work: Work,
  projectId: string,
  actor: LobbyActor,
  query: ListLobbies,
): Promise<Total & { lobbies: LobbyView[] }> => {
  const where = whereOf(projectId, actor, query);
  const order = sql.raw(query.order);
  const found = await readLobbies(
    work,
    sql`${where} order by ${SORTS[query.sort]} ${order}, l.id ${order}
      limit ${query.limit} offset ${offsetOf(query)}`,
  );
  const people = await readPeople(work, found);
  const lobbies = found.map((lobby) => withoutStats(showLobby(lobby, { people, isPrivate: false })));
  return { lobbies, ...(await countRows(work, sql`lobbies l ${where}`)) };
};
