import { notFound } from "../kernel/errors.ts";
import { isId } from "../kernel/ids.ts";
import type { Read } from "../kernel/read.ts";
import { type CacheSize, createSizedCache } from "../kernel/sized-cache.ts";
import type { Leaderboard } from "../progression/leaderboard.ts";

/** Maximum boards, and bytes of their definitions, that a process remembers. */
const BOARDS_KEPT = { items: 10_000, bytes: 8 * 1024 * 1024 };
/** Maximum external ids of players whose own ids a process remembers. */
const PLAYERS_KEPT = { items: 20_000, bytes: 4 * 1024 * 1024 };
/** Bytes of a remembered id beside its name. */
const PLAYER_BYTES = 150;

/** Definitions of boards, and ids of players. */
type Remembered = "boards" | "players";
type OnLookUp = (of: Remembered, isHit: boolean) => void;

/** A board as it is in one version of its project's configuration. */
export type KnownBoard = { configVersion: string; leaderboard: Leaderboard };

type BoardRow = {
  config_version: string | number;
  id: string | null;
  key: string;
  name: string;
  status: Leaderboard["status"];
  definition: Leaderboard["definition"];
  version: number;
  period_id: string;
  resets: number;
  reset_at: Date | string | null;
  opens_at: Date | string | null;
  created_at: Date | string;
  updated_at: Date | string;
  bytes: number;
};

const BOARD = `
  select j.config_version, l.*, octet_length(l.definition::text) as bytes
  from projects j
  left join lateral (
    select id, key, name, status, definition, version, period_id, resets, reset_at, opens_at, created_at,
      updated_at
    from leaderboards where project_id = j.id and (id = $2::uuid or key = $3::text)
    order by (id = $2::uuid) desc nulls last limit 1) l on true
  where j.id = $1::uuid`;

const dateOf = (at: Date | string | null): Date | null => (at === null ? null : new Date(at));

const boardOf = (projectId: string, row: BoardRow & { id: string }): Leaderboard => ({
  id: row.id,
  projectId,
  key: row.key,
  name: row.name,
  status: row.status,
  definition: row.definition,
  version: row.version,
  periodId: row.period_id,
  resets: row.resets,
  resetAt: dateOf(row.reset_at),
  opensAt: dateOf(row.opens_at),
  createdAt: new Date(row.created_at),
  updatedAt: new Date(row.updated_at),
});

/**
 * What reads of boards remember between requests: definitions, and players' ids by their external ones. Both
 * are guesses that the statement of each read confirms, so they may be of any age; nothing is answered from
 * them alone.
 */
export class BoardCache {
  readonly #boards = createSizedCache<KnownBoard>(BOARDS_KEPT);
  readonly #players = createSizedCache<string>(PLAYERS_KEPT);
  readonly #onLookUp: OnLookUp;

  constructor(onLookUp: OnLookUp = () => undefined) {
    this.#onLookUp = onLookUp;
  }

  get sizes(): Record<Remembered, CacheSize> {
    return { boards: this.#boards.size, players: this.#players.size };
  }

  /** Returns a board by its id or key. @throws DomainError NOT_FOUND */
  async board(read: Read, projectId: string, ref: string): Promise<KnownBoard> {
    const known = this.#boards.get(`${projectId}:${ref}`);
    this.#onLookUp("boards", known !== undefined);
    return known ?? this.#read(read, projectId, ref);
  }

  async #read(read: Read, projectId: string, ref: string): Promise<KnownBoard> {
    const [row] = await read<BoardRow>({ text: BOARD, values: [projectId, isId(ref) ? ref : null, ref] });
    if (!row || row.id === null) throw notFound("leaderboard");
    const leaderboard = boardOf(projectId, { ...row, id: row.id });
    const known = { configVersion: String(row.config_version), leaderboard };
    return this.#boards.keep(`${projectId}:${ref}`, known, { owner: projectId, bytes: row.bytes });
  }

  /** Forgets a board that has turned out to be of another version. */
  forget(projectId: string, ref: string): void {
    this.#boards.drop(`${projectId}:${ref}`);
  }

  /** Returns the id that an external id had; undefined where it is not remembered. */
  playerId(projectId: string, externalUserId: string): string | undefined {
    const known = this.#players.get(`${projectId}:${externalUserId}`);
    this.#onLookUp("players", known !== undefined);
    return known;
  }

  keepPlayer(projectId: string, externalUserId: string, playerId: string): void {
    const bytes = externalUserId.length + PLAYER_BYTES;
    this.#players.keep(`${projectId}:${externalUserId}`, playerId, { owner: projectId, bytes });
  }
}
