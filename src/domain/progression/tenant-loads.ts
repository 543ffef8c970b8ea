/** After so long half of what a tenant has taken is forgotten, in ms. */
const HALF_LIFE_MS = 5_000;
/** Steps of all tenants together, within about a half-life, below which nobody has to wait for another. */
export const BUSY_STEPS = 4_000_000;
/** Projects that are put off at once: the queue is read around each of them. */
const PUT_OFF_MAX = 100;
/** Projects that are remembered; the one that was charged longest ago is forgotten. */
const PROJECTS_MAX = 2_000;

type Load = { tenantId: string; steps: number; atMs: number };

/** Parts of an equal share; who has had more than one of them comes after those who have had less. */
const TIERS = [1 / 8, 1];

/**
 * `putOff`: for each of TIERS, the projects of tenants who have had more, those that have taken most at the
 * front; empty while nobody is put off. `loads`: what the tenant of a project has taken, by the project.
 */
export type Order = { putOff: readonly (readonly string[])[]; loads: ReadonlyMap<string, number> };

const NO_ORDER: Order = { putOff: [], loads: new Map() };

/**
 * What tenants have taken of a process lately, however many projects they spread it over. A tenant who has
 * had more than an equal share, with one more tenant counted who has had nothing, lets the others go first,
 * and so does one who has had more than an eighth of it with those who have had less. So whoever comes with
 * little never waits for the queues of those who take much, and two who take much share what is left. What
 * is remembered decides who goes first, and nothing else: it may be lost.
 */
export class TenantLoads {
  readonly #nowMs: () => number;
  readonly #projects = new Map<string, Load>();

  /** @param nowMs a clock that only goes forward */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  charge(projectId: string, tenantId: string, steps: number): void {
    const known = this.#projects.get(projectId);
    this.#projects.delete(projectId);
    const atMs = this.#nowMs();
    this.#projects.set(projectId, { tenantId, steps: steps + (known ? leftOf(known, atMs) : 0), atMs });
    if (this.#projects.size > PROJECTS_MAX) this.#projects.delete(this.#projects.keys().next().value!);
  }

  /** Who lets others go first now. */
  order(): Order {
    const nowMs = this.#nowMs();
    const projects = [...this.#projects].map(([id, load]) => ({ ...load, id, steps: leftOf(load, nowMs) }));
    const byTenant = new Map<string, number>();
    for (const { tenantId, steps } of projects) byTenant.set(tenantId, (byTenant.get(tenantId) ?? 0) + steps);
    const total = [...byTenant.values()].reduce((sum, steps) => sum + steps, 0);
    if (total < BUSY_STEPS) return NO_ORDER;
    const share = total / (byTenant.size + 1);
    const most = projects.toSorted((one, other) => other.steps - one.steps);
    const putOff = TIERS.map((part) =>
      most
        .filter(({ tenantId }) => byTenant.get(tenantId)! > share * part)
        .slice(0, PUT_OFF_MAX)
        .map(({ id }) => id),
    );
    return { putOff, loads: new Map(projects.map(({ id, tenantId }) => [id, byTenant.get(tenantId)!])) };
  }
}

const leftOf = ({ steps, atMs }: Load, nowMs: number): number => steps * 2 ** ((atMs - nowMs) / HALF_LIFE_MS);
