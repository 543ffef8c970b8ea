import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { CACHE_TTL_MS } from "../auth/short-cache.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { DomainLooks } from "./looks.ts";

/** A domain that leads to this server. */
export type KnownDomain = {
  id: string;
  tenantId: string;
  domain: string;
  /** Another one after each change of the row, such as another certificate. */
  version: string;
};

/** The custom domain that a request came by: of the database, never a header's text. */
export type CustomHost = Pick<KnownDomain, "tenantId" | "domain">;

type Parts = {
  transact: Transact;
  isOn: boolean;
  warn: (err: unknown, message: string) => void;
};

/** All held domains at a time; `stamp` differs when one of them has changed. */
type Snapshot = { stamp: string; byName: ReadonlyMap<string, KnownDomain> };

const HELD = sql`status in ('VERIFIED', 'ACTIVE', 'DEGRADED')`;

const readStamp = async ({ db }: Work): Promise<string> => {
  const { rows } = await sql<{ stamp: string }>`
    select count(*) || ':' || coalesce(max(updated_at), 'epoch'::timestamptz)::text as stamp
    from custom_domains where ${HELD}`.execute(db);
  return rows[0]!.stamp;
};

const readAll = async ({ db }: Work): Promise<Map<string, KnownDomain>> => {
  const { rows } = await sql<KnownDomain>`
    select id, tenant_id as "tenantId", domain, updated_at::text as version
    from custom_domains where ${HELD}`.execute(db);
  return new Map(rows.map((row) => [row.domain, row]));
};

/** How long a question waits for what is newer than what is known, in ms. */
const WAIT_MS = 1_000;

/**
 * The custom domains that this process knows: all that are held, some seconds old at most. A name that is
 * none costs the database nothing, however many are asked for. While it does not answer, what was known
 * stays.
 */
export class KnownDomains {
  /** Looks at domains that their tenants ask for, in this process. */
  readonly looks = new DomainLooks();
  readonly #parts: Parts;
  #snapshot: Snapshot | undefined;
  #reading: Promise<void> | undefined;
  #readAtMs = -Infinity;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Returns the domain of this name, in lower case and without a final dot. @throws where the domains have
   * never been read, and cannot be
   */
  async find(name: string): Promise<KnownDomain | undefined> {
    if (!this.#parts.isOn) return undefined;
    const ageMs = performance.now() - this.#readAtMs;
    // Without anything known each question reads: an answer of nothing would serve a host as nobody's.
    if (ageMs > CACHE_TTL_MS || !this.#snapshot) this.#reading ??= this.#read();
    if (!this.#snapshot) await this.#reading;
    else if (ageMs > 2 * CACHE_TTL_MS) await Promise.race([this.#reading, delay(WAIT_MS)]);
    return this.#snapshot?.byName.get(name);
  }

  /** Has everything read anew at the next question, which waits for it. */
  forget(): void {
    this.#readAtMs = -Infinity;
  }

  async #read(): Promise<void> {
    const { transact, warn } = this.#parts;
    const known = this.#snapshot;
    try {
      this.#readAtMs = performance.now();
      this.#snapshot = await transact(async (work): Promise<Snapshot> => {
        const stamp = await readStamp(work);
        return known?.stamp === stamp ? known : { stamp, byName: await readAll(work) };
      });
    } catch (error) {
      // What was known stays in force; without anything known nobody is served as somebody else.
      if (!known) throw error;
      warn(error, "custom domains could not be read; those known before are served");
    } finally {
      this.#reading = undefined;
    }
  }
}
