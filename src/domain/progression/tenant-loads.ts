/** Half-life of a tenant's recorded consumption, in ms. */
const HALF_LIFE_MS = 5_000;
/** Total steps of all tenants, within about a half-life, below which nobody has to wait for another. */
export const BUSY_STEPS = 4_000_000;
/** Maximum projects put off at once: the queue is read around each of them. */
const PUT_OFF_MAX = 100;
/** Maximum projects remembered; the one charged longest ago is forgotten. */
const PROJECTS_MAX = 2_000;

export type ProjectOwner = { projectId: string; tenantId: string };

type Charge = { steps: number; atMs: number };
type Load = Charge & { tenantId: string };

/** Fractions of an equal share; tenants above one of them come after those below it. */
const TIERS = [1 / 8, 1];

/**
 * `putOff`: for each of TIERS, the projects of tenants above it, the largest consumers first; empty while
 * nobody is put off. `loads`: consumption of the project's tenant, by project. `maxOf`: the highest
 * consumption of tenants in each tier.
 */
export type Order = {
  putOff: readonly (readonly string[])[];
  loads: ReadonlyMap<string, number>;
  maxOf: readonly number[];
};

const NO_ORDER: Order = { putOff: [], loads: new Map(), maxOf: [] };

/**
 * Tracks the recent consumption of tenants in a process, however many projects they spread it over. A tenant
 * above an equal share, counting one idle tenant more, lets the others go first, and a tenant above an eighth
 * of it goes after those below. So a tenant with little work never waits for the queues of large ones, and
 * large ones share the rest. The state only decides the order, so it may be lost.
 */
export class TenantLoads {
  readonly #nowMs: () => number;
  readonly #projects = new Map<string, Load>();
  /** Consumption of all projects, forgotten ones included: usually too little to look at each. */
  #all: Charge = { steps: 0, atMs: 0 };

  /** @param nowMs a monotonic clock */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  knows(projectId: string): boolean {
    return this.#projects.has(projectId);
  }

  charge({ projectId, tenantId }: ProjectOwner, steps: number): void {
    const known = this.#projects.get(projectId);
    this.#projects.delete(projectId);
    const atMs = this.#nowMs();
    this.#all = { steps: leftOf(this.#all, atMs) + steps, atMs };
    this.#projects.set(projectId, { tenantId, steps: steps + (known ? leftOf(known, atMs) : 0), atMs });
    if (this.#projects.size > PROJECTS_MAX) this.#projects.delete(this.#projects.keys().next().value!);
  }

  /** Returns which projects are put off now. */
  order(): Order {
    const nowMs = this.#nowMs();
    if (leftOf(this.#all, nowMs) < BUSY_STEPS) return NO_ORDER;
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
    const loads = new Map(projects.map(({ id, tenantId }) => [id, byTenant.get(tenantId)!]));
    return { putOff, loads, maxOf: TIERS.map((part) => share * part) };
  }
}

const leftOf = ({ steps, atMs }: Charge, nowMs: number): number =>
  steps * 2 ** ((atMs - nowMs) / HALF_LIFE_MS);
