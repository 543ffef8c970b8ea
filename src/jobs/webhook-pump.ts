import { setTimeout as delay } from "node:timers/promises";
import type { App } from "../app.ts";
import {
  afterAttempt,
  type Circuit,
  inFlightMax,
  isSuspect,
  NEW_CIRCUIT,
  RoundRobin,
  SLOW_MS,
} from "../domain/delivery/webhooks/delivering/circuit.ts";
import {
  claimDeliveries,
  type ClaimedDelivery,
  findDue,
  FIRST_WEBHOOK,
  LEASE_MS,
  type LostClaim,
  releaseDeliveries,
  releaseLost,
} from "../domain/delivery/webhooks/delivering/claim.ts";
import { recordResults, type Result } from "../domain/delivery/webhooks/delivering/record-results.ts";
import {
  notSent,
  SEND_TIMEOUT_MS,
  type WebhookOutcome,
} from "../domain/delivery/webhooks/delivering/sender.ts";
import { signedRequest } from "../domain/delivery/webhooks/delivering/signing.ts";
import { liveSecrets, SECRET_LOST, SECRET_UNREADABLE } from "../domain/delivery/webhooks/registration.ts";
import { OutageBackoff } from "./job.ts";

/** Maximum number of endpoints remembered although they have nothing to send. */
const REMEMBERED_MAX = 10_000;

/** A process's knowledge of a webhook's endpoint. */
type Endpoint = {
  id: string;
  /** The webhook's own id until it is known. */
  tenantId: string;
  /** Number of attempts in flight. */
  inFlight: number;
  /** Whether deliveries may be due. */
  mayHaveMore: boolean;
  circuit: Circuit;
};

/** Schedules which endpoints send next, fairly between tenants. */
class Endpoints {
  readonly #known = new Map<string, Endpoint>();
  readonly #healthy = new RoundRobin();
  /** Endpoints whose attempts hang: they may only use slots for slow attempts. */
  readonly #suspect = new RoundRobin();

  /** Notes that a delivery of the webhook may be due. */
  wake(id: string, tenantId?: string): void {
    const endpoint = this.#of(id);
    if (tenantId !== undefined) endpoint.tenantId = tenantId;
    endpoint.mayHaveMore = true;
    this.enqueue(endpoint);
  }

  get(id: string): Endpoint | undefined {
    return this.#known.get(id);
  }

  get isIdle(): boolean {
    return this.#healthy.isEmpty && this.#suspect.isEmpty;
  }

  /** Queues an endpoint if it has something to send and a free slot. */
  enqueue(endpoint: Endpoint): void {
    const { id, tenantId, inFlight, mayHaveMore, circuit } = endpoint;
    if (!mayHaveMore || inFlight >= inFlightMax(circuit)) return;
    (isSuspect(circuit) ? this.#suspect : this.#healthy).add(tenantId, id);
  }

  /**
   * Returns the endpoints whose turn it is, with the number of deliveries that each may claim. After the
   * claim the result must be reported by `claimed`.
   * @param slots free slots for all attempts, and those for attempts that are slow from the start
   */
  take({ slots, suspectSlots }: { slots: number; suspectSlots: number }): Map<string, number> {
    const room = (id: string): number => {
      const { inFlight, circuit } = this.#of(id);
      return inFlightMax(circuit) - inFlight;
    };
    const taken = this.#healthy.take(slots, room);
    for (const [id, count] of this.#suspect.take(suspectSlots, room)) {
      // Its circuit may have changed while it was in both queues.
      if (!taken.has(id)) taken.set(id, count);
    }
    for (const id of taken.keys()) this.#of(id).mayHaveMore = false;
    return taken;
  }

  /** Reports how many deliveries were claimed for an endpoint that was allowed `asked`. */
  claimed(id: string, asked: number, count: number): void {
    const endpoint = this.#of(id);
    endpoint.inFlight += count;
    if (count === asked) endpoint.mayHaveMore = true;
    this.enqueue(endpoint);
  }

  /** Reports that an attempt has ended. */
  ended(id: string, outcome: Parameters<typeof afterAttempt>[1]): void {
    const endpoint = this.#of(id);
    endpoint.inFlight--;
    endpoint.circuit = afterAttempt(endpoint.circuit, outcome);
    this.enqueue(endpoint);
  }

  #of(id: string): Endpoint {
    const known = this.#known.get(id);
    if (known) return known;
    const endpoint = { id, tenantId: id, inFlight: 0, mayHaveMore: false, circuit: NEW_CIRCUIT };
    this.#known.set(id, endpoint);
    if (this.#known.size > REMEMBERED_MAX) this.#forgetIdle();
    return endpoint;
  }

  /** Forgets a tenth of the idle endpoints, the oldest first. */
  #forgetIdle(): void {
    let left = REMEMBERED_MAX / 10;
    for (const [id, { inFlight, mayHaveMore }] of this.#known) {
      if (left === 0) return;
      if (inFlight > 0 || mayHaveMore) continue;
      this.#known.delete(id);
      left--;
    }
  }
}

/**
 * Maximum numbers of concurrent attempts of a process, and in addition of attempts that have taken longer
 * than SLOW_MS. Together fewer than the sender's limit, so that none queues there behind hanging ones.
 */
const IN_FLIGHT_MAX = 64;
const SLOW_MAX = 160;
/** How often attempts are checked for slowness, in ms. */
const CHECK_EVERY_MS = 100;

/** An attempt in flight. */
type Flight = {
  delivery: ClaimedDelivery;
  startMs: number;
  isSlow: boolean;
  abort: AbortController;
};

/** The attempts of a process in flight, and its free slots. */
class Flights {
  readonly #all = new Set<Flight>();
  #slow = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #onRoom: () => void;

  /** @param onRoom is called when attempts were reclassified as slow, which frees slots for others */
  constructor(onRoom: () => void) {
    this.#onRoom = onRoom;
  }

  get count(): number {
    return this.#all.size;
  }

  /** Free slots for attempts, and for those that count as slow from the start. */
  get room(): { slots: number; suspectSlots: number } {
    const fast = this.#all.size - this.#slow;
    return { slots: Math.max(0, IN_FLIGHT_MAX - fast), suspectSlots: Math.max(0, SLOW_MAX - this.#slow) };
  }

  begin(delivery: ClaimedDelivery, isSlow: boolean): Flight {
    const flight = { delivery, startMs: performance.now(), isSlow, abort: new AbortController() };
    this.#all.add(flight);
    if (isSlow) this.#slow++;
    this.#timer ??= setInterval(() => this.#look(), CHECK_EVERY_MS).unref();
    return flight;
  }

  end(flight: Flight): void {
    if (!this.#all.delete(flight)) return;
    if (flight.isSlow) this.#slow--;
    if (this.#all.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  [Symbol.iterator](): Iterator<Flight> {
    return this.#all.values();
  }

  #look(): void {
    const before = performance.now() - SLOW_MS;
    const { slots } = this.room;
    for (const flight of this.#all) {
      // In order of their start.
      if (flight.startMs > before || this.#slow >= SLOW_MAX) break;
      if (flight.isSlow) continue;
      flight.isSlow = true;
      this.#slow++;
    }
    if (this.room.slots > slots) this.#onRoom();
  }
}

/** Results that arrive within this time are recorded together, in ms. */
const GATHER_MS = 2;
/** Time for attempts to end when the process stops, in ms. */
const STOP_MS = 4_000;
/** Maximum number of remembered claims with an unknown outcome; the newest are kept. */
const LOST_MAX = 20;

type PumpParts = Pick<
  App,
  "transact" | "webhookSender" | "clock" | "secretBox" | "mail" | "metrics" | "log" | "config" | "limits"
>;

/**
 * Delivers webhooks in one process, in rounds: one transaction records the results of attempts and claims as
 * many deliveries as can be sent at once; then those are sent, outside of any transaction. Nothing is claimed
 * before earlier results are recorded, so memory is bounded whatever the backlog, and when the database is
 * unavailable.
 */
export class WebhookPump {
  readonly #parts: PumpParts;
  readonly #endpoints = new Endpoints();
  readonly #flights = new Flights(() => this.#runSoon());

  readonly #backoff: OutageBackoff;
  #done: Result[] = [];
  #lost: LostClaim[] = [];
  #sweptTo = FIRST_WEBHOOK;
  #running: Promise<void> | undefined;
  #isAnotherWanted = false;
  #timer: NodeJS.Timeout | undefined;
  #isStopping = false;
  #onLanded: (() => void) | undefined;

  constructor(parts: PumpParts) {
    this.#parts = parts;
    this.#backoff = new OutageBackoff(parts.log, "deliver-webhooks: recording");
  }

  /** Notes that a delivery of the webhook may be due. */
  wake(webhookId: string): void {
    if (this.#isStopping) return;
    this.#endpoints.wake(webhookId);
    this.#runNow();
  }

  /** Looks for due deliveries without a wake: retries, and leftovers of other processes. */
  async sweep(): Promise<void> {
    const { due, next } = await this.#parts.transact((work) => findDue(work, this.#sweptTo));
    this.#sweptTo = next;
    if (this.#isStopping) return;
    for (const { id, tenantId } of due) this.#endpoints.wake(id, tenantId);
    if (due.length > 0) this.#runNow();
  }

  /** Stops claiming, waits a few seconds for attempts in flight, and releases the rest. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    if (this.#flights.count > 0) {
      const landed = new Promise<void>((resolve) => {
        this.#onLanded = resolve;
      });
      await Promise.race([landed, delay(STOP_MS, undefined, { ref: false })]);
    }
    clearTimeout(this.#timer);
    await this.#running;
    clearTimeout(this.#timer);
    const left = [...this.#flights];
    for (const { abort } of left) abort.abort();
    await this.#parts.transact(async (work) => {
      await this.#record(work, this.#done);
      await releaseDeliveries(
        work,
        left.map(({ delivery }) => delivery),
      );
    });
  }

  #runSoon(): void {
    if (this.#running) this.#isAnotherWanted = true;
    else this.#timer ??= setTimeout(() => this.#runNow(), GATHER_MS);
  }

  #runNow(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isAnotherWanted = true;
    this.#running ??= this.#runWhileWanted();
  }

  async #runWhileWanted(): Promise<void> {
    while (this.#isAnotherWanted) {
      this.#isAnotherWanted = false;
      try {
        await this.#runRound();
        this.#backoff.over();
        await this.#parts.limits.pause?.();
      } catch (err) {
        if (this.#isStopping) break;
        await delay(this.#backoff.next(err), undefined, { ref: false });
        this.#isAnotherWanted = true;
      }
    }
    this.#running = undefined;
  }

  /** Runs one round: records and claims, then sends. */
  async #runRound(): Promise<void> {
    const done = this.#done;
    const wanted = this.#isStopping ? new Map<string, number>() : this.#endpoints.take(this.#flights.room);
    if (done.length === 0 && wanted.size === 0) return;
    this.#done = [];
    const claimed = await this.#exchange(done, wanted);
    this.#begin(claimed, wanted);
    if (!this.#endpoints.isIdle && this.#flights.room.slots > 0) this.#isAnotherWanted = true;
  }

  #begin(claimed: readonly ClaimedDelivery[], wanted: ReadonlyMap<string, number>): void {
    const counts = Map.groupBy(claimed, ({ webhook }) => webhook.id);
    for (const [id, asked] of wanted) this.#endpoints.claimed(id, asked, counts.get(id)?.length ?? 0);
    for (const delivery of claimed) this.#send(delivery);
  }

  /** Records and claims in one transaction; after a failure the state is unchanged. */
  async #exchange(
    done: readonly Result[],
    wanted: ReadonlyMap<string, number>,
  ): Promise<readonly ClaimedDelivery[]> {
    const lost = this.#lost;
    let leasedUntil: Date | undefined;
    try {
      const claimed = await this.#parts.transact(async (work) => {
        await this.#record(work, done);
        await releaseLost(work, lost);
        if (wanted.size === 0) return [];
        leasedUntil = new Date(work.now.getTime() + LEASE_MS);
        return claimDeliveries(work, wanted);
      });
      this.#lost = [];
      return claimed;
    } catch (error) {
      this.#done = [...done, ...this.#done];
      for (const id of wanted.keys()) this.#endpoints.wake(id);
      // The commit may have succeeded although its answer was lost.
      if (leasedUntil)
        this.#lost = [...lost, { webhookIds: [...wanted.keys()], leasedUntil }].slice(-LOST_MAX);
      throw error;
    }
  }

  async #record(work: Parameters<typeof recordResults>[0], results: readonly Result[]): Promise<void> {
    const { mail, metrics } = this.#parts;
    const givenUp = await recordResults(work, mail, results);
    if (givenUp > 0) work.afterCommit(() => metrics.webhooks.givenUp.inc(givenUp));
  }

  #send(delivery: ClaimedDelivery): void {
    const { metrics, clock } = this.#parts;
    const endpoint = this.#endpoints.get(delivery.webhook.id);
    if (endpoint) endpoint.tenantId = delivery.webhook.tenantId;
    const flight = this.#flights.begin(delivery, endpoint ? isSuspect(endpoint.circuit) : false);
    metrics.webhooks.inFlight.set(this.#flights.count);
    const startedAt = clock();
    if (delivery.isNew && !delivery.isTest)
      metrics.webhooks.firstAttemptLag.observe(
        Math.max(0, (startedAt.getTime() - delivery.happenedAt.getTime()) / 1_000),
      );
    void this.#attempt(flight, startedAt).then((outcome) => this.#finished(flight, startedAt, outcome));
  }

  /** Sends one attempt. Never rejects. */
  async #attempt({ delivery, abort }: Flight, startedAt: Date): Promise<WebhookOutcome> {
    const { webhookSender, config, log, secretBox } = this.#parts;
    const { id: deliveryId, eventId, eventType, body, webhook, attempts } = delivery;
    if (body === null) return notSent(delivery.missing ?? "");
    let secrets: string[];
    try {
      secrets = liveSecrets(secretBox, webhook, startedAt);
    } catch (err) {
      log.error({ err, webhookId: webhook.id }, SECRET_LOST);
      return notSent(SECRET_UNREADABLE);
    }
    const signable = { deliveryId, eventId, eventType, body, attempt: attempts + 1 };
    const request = signedRequest(
      { url: webhook.url, secrets, version: config.version },
      signable,
      startedAt,
    );
    try {
      return await webhookSender.send({ ...request, timeoutMs: SEND_TIMEOUT_MS, signal: abort.signal });
    } catch (err) {
      log.error({ err, webhookId: webhook.id }, "an attempt failed by itself");
      return notSent("Laurel could not send it");
    }
  }

  #finished(flight: Flight, startedAt: Date, outcome: WebhookOutcome): void {
    const { delivery, abort } = flight;
    if (abort.signal.aborted) return;
    const { attempts, attemptDuration, inFlight } = this.#parts.metrics.webhooks;
    attempts.inc({ outcome: labelOf(outcome) });
    attemptDuration.observe(outcome.durationMs / 1_000);
    this.#flights.end(flight);
    inFlight.set(this.#flights.count);
    this.#endpoints.ended(delivery.webhook.id, outcome);
    this.#done.push({ delivery, outcome, startedAt, endedAt: this.#parts.clock(), random: Math.random() });
    if (this.#flights.count === 0) this.#onLanded?.();
    this.#runSoon();
  }
}

const labelOf = ({ isSuccess, isRefused, responseCode }: WebhookOutcome): string => {
  if (isSuccess) return "success";
  if (isRefused) return "refused";
  return responseCode === null ? "no_answer" : "failure";
};
