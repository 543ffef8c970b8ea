import { type RawBuilder, sql } from "kysely";
import type { Frame } from "./range.ts";
import type { JudgedPlayer } from "./rollups/each-player.ts";

/** Who a player is: by number or as a person, where rollups were read; by id, where events were. */
export type Who = JudgedPlayer["who"] | string;

/** Collects players whom a question counts. Each is added once. */
export class FoundPlayers {
  readonly #numbers: number[] = [];
  readonly #ids: string[] = [];

  add(who: Who): void {
    if (typeof who === "number") this.#numbers.push(who);
    else this.#ids.push(typeof who === "string" ? who : who.id);
  }

  /** A query of their ids, in the column player_id. */
  query({ projectId }: Frame): RawBuilder<unknown> {
    return sql`
      select n.player_id from analytics_players n where n.project_id = ${projectId}::uuid
        and n.no = any(${`{${this.#numbers.join(",")}}`}::int[])
      union all select unnest(${`{${this.#ids.join(",")}}`}::uuid[])`;
  }
}
