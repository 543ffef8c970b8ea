import { createPrivateKey } from "node:crypto";
import type { Logger } from "pino";
import type { Config } from "./config.ts";
import { createApiKeyHasher } from "./domain/accounts/api-keys/api-key.ts";
import { createPasswords } from "./domain/accounts/auth/passwords.ts";
import { createTokens } from "./domain/accounts/auth/tokens.ts";
import type { Mail } from "./domain/accounts/email/mail.ts";
import { createMail } from "./domain/accounts/email/deliveries.ts";
import { createRankMoves, withOwnChanges } from "./domain/leaderboards/rank-moves.ts";
import { OwnChanges } from "./domain/kernel/caches.ts";
import { entrySource } from "./domain/leaderboards/leaderboards.ts";
import type { LiveRooms, Peers } from "./domain/kernel/live-rooms.ts";
import { KnownDomains } from "./domain/accounts/domains/known.ts";
import { throttledWarnings } from "./domain/kernel/outages.ts";
import { connectionSlots } from "./domain/kernel/bulkhead.ts";
import { connectedIn, createTransact, Lanes, type WakeUps } from "./domain/kernel/transact.ts";
import { KnownBlocks } from "./domain/accounts/rate-limits/ip-blocks.ts";
import { createSecretBox, type SecretBox } from "./domain/kernel/secret-box.ts";
import { createIngest, type Ingest, ingestIn } from "./domain/tracking/group-commit.ts";
import { createProjectRules } from "./domain/tracking/event-input.ts";
import {
  type CommitAs,
  commitBy,
  type Read,
  type ReadAs,
  readBy,
  reportOtherSchema,
} from "./domain/kernel/read.ts";
import { createSharedCommits, type SharedTransactAs } from "./domain/kernel/shared-commits.ts";
import type { Transact, TransactAs } from "./domain/kernel/work.ts";
import { createStatsRecorder } from "./domain/evaluation/running/stats.ts";
import { createEventTypeRecorder } from "./domain/tracking/event-type-recorder.ts";
import type { Queue, QueuedJobName } from "./jobs/queue.ts";
import type { Metrics } from "./metrics.ts";
import type { Limits, Platform } from "./platform.ts";
import { createAcme } from "./platform/acme.ts";
import { createDnsRecords } from "./platform/dns-records.ts";
import { createCaptcha } from "./platform/captcha.ts";
import { createMailer } from "./platform/mailer.ts";
import { createOAuth } from "./platform/oauth.ts";
import { createStripe } from "./platform/stripe.ts";
import { createSso } from "./platform/sso.ts";
import { createPasskeys } from "./platform/passkeys.ts";
import { warehouseOf } from "./platform/warehouse/directory.ts";
import { createWebhookSender } from "./platform/webhook-sender.ts";
import { within } from "./platform/within.ts";
import { createAnswerCaches } from "./platform/answer-caches.ts";

/** Maximum number of events waiting for ingestion in one process; beyond that callers must retry. */
const INGEST_WAITING_MAX = 50_000;

export type Health = { name: string; ok: boolean; message?: string };

/** The functions that adapters (http, rooms, jobs, cli) are given. Tests replace a part by spread. */
export type App = ReturnType<typeof createApp>;

type AppParts = {
  config: Config;
  log: Logger;
  metrics: Metrics;
  platform: Platform;
  clock?: () => Date;
};

/** Assembles the application; opens and starts nothing. */
export const createApp = ({ config, log, metrics, platform, clock = clockOf(platform) }: AppParts) => {
  const { queue, limits, topics } = platform;
  const peers: Peers | undefined = platform.peers;
  const changes = new OwnChanges();
  const transacting = { ...transactPartsOf({ log, platform, clock }), changes };
  const access = createAccess(platform, transacting);
  const { transact, transactAs } = access;
  const ranks = withOwnChanges(platform.ranks(entrySource(transact)), { changes, topics });
  const secretBox = createSecretBox(config.secrets.encryptionKeys);
  const warnOfOutage = throttledWarnings(log);
  return {
    config,
    log,
    /** Warns of an outage once in a while, however many rooms meet it together. */
    warnOfOutage,
    clock,
    ...access,
    /** As `transactAs`, for changes of players: requests of one project share transactions. */
    transactShared: sharedTransactOf(transactAs, limits, metrics),
    /** As `ingest`, in a transaction in progress. */
    ingestIn: ingestIn({
      statementRows: limits.ingestRows,
      onStored: (parts) => wakeAll(queue, "process-events", parts),
    }),
    /** Stores validated events durably; simultaneous requests are committed together. */
    ingest: ingestOf(transact, platform),
    /** Returns which projects a caller's events may name. */
    projectRules: createProjectRules(transact, clock),
    ranks,
    /** Puts committed changes of entries into the rank index. */
    rankMoves: createRankMoves({ ranks, topics }),
    ...createAnswerCaches(metrics, changes),
    /** Rule statistics and event types counted by this process and not written yet. */
    ruleStats: createStatsRecorder(),
    eventTypes: createEventTypeRecorder(),
    topics,
    /** The other processes that hold rooms; undefined where there can be none. */
    peers,
    /** The rooms of all processes; undefined in a process without rooms. */
    liveRooms: undefined as LiveRooms | undefined,
    queue,
    tokens: createTokens({
      privateKey: createPrivateKey(config.secrets.jwtPrivateKey),
      issuer: config.publicUrl,
      clock,
    }),
    passwords: createPasswords(config.passwordCost),
    apiKeys: createApiKeyHasher(config.secrets.apiKeyPeppers),
    /** Encrypts stored values that must not be readable in the database. */
    secretBox,
    limiter: platform.limiter,
    /** Refuses addresses that are blocked. */
    blocks: new KnownBlocks({ transact: transactAs({ role: "accounts" }), clock }),
    /** The custom domains of all tenants that are held. */
    domains: new KnownDomains({
      transact: transactAs({ role: "accounts" }),
      isOn: config.domains !== undefined,
      warn: warnOfOutage,
    }),
    mail: mailOf(config, secretBox, queue),
    ...othersOf(config, log),
    metrics,
    limits,
    /** Maintains the database, if it does not maintain itself. */
    maintain: platform.maintain ?? (async () => undefined),
    /** Checks the services that this process depends on. */
    health: () => Promise.all(platform.dependencies.map(checkDependency)),
  };
};

/** What speaks to the services of others. */
const othersOf = (config: Config, log: Logger) => ({
  oauth: createOAuth(config.oauth, config),
  /** Speaks to the identity providers of tenants. */
  sso: createSso(config),
  dns: createDnsRecords(config.dnsServers),
  /** Orders certificates; undefined where this server gets none itself. */
  acme: config.domains?.acme && createAcme(config.domains.acme),
  passkeys: createPasskeys(config.passkeys),
  /** Speaks to the payment provider; undefined where no plans are sold. */
  billing: config.billing && createStripe(config.billing, log),
  captcha: createCaptcha(config.captcha, log),
  /** Sends one mail; workers only. */
  mailer: createMailer(config.mail, log),
  /** Sends requests to addresses that tenants have configured. */
  webhookSender: createWebhookSender(config.outbound),
  /** Where files for a warehouse are written; undefined where there is none. */
  warehouse: warehouseOf(config),
});

const sharedTransactOf = (
  transactAs: TransactAs,
  { connectionWaitMs, pause }: Limits,
  { commits }: Metrics,
): SharedTransactAs =>
  createSharedCommits({ transactAs, waitMaxMs: connectionWaitMs, pause, observer: commits });

const ingestOf = (transact: Transact, { queue, limits }: Platform): Ingest =>
  createIngest({
    transact,
    maxEvents: limits.ingestEvents,
    statementRows: limits.ingestRows,
    concurrency: limits.ingestConcurrency,
    maxWaiting: INGEST_WAITING_MAX,
    ...(limits.pause ? { pause: limits.pause } : {}),
    onStored: (parts) => wakeAll(queue, "process-events", parts),
  });

const mailOf = (config: Config, secretBox: SecretBox, queue: Queue): Mail => {
  const { mail, consoleUrl, domains } = config;
  const wake = (lane: number): void => wakeAll(queue, "send-mail", [lane]);
  return createMail({ secretBox, mode: mail.mode, consoleUrl, hasDomains: domains !== undefined, wake });
};

type Access = {
  /** Sees every tenant: for workers and the server's own tasks. Operations receive a scoped one. */
  transact: Transact;
  transactAs: TransactAs;
  /** As `transactAs`, in a replica where there is one: for what only reads and may be some seconds old. */
  replicaAs: TransactAs;
  /** One statement that only reads, where that needs no transaction. Operations receive a scoped one. */
  read: Read;
  /** Creates such a Read of a scope; undefined where each is a transaction, see `readBy`. */
  readAs: ReadAs | undefined;
  /** Creates transactions of statements that need no answer in between. */
  commitAs: CommitAs;
};

/** Creates what accesses the database. Reads hold connections within the same bounds as transactions. */
const createAccess = (
  { database, replica, limits }: Platform,
  parts: Parameters<typeof createTransact>[0],
): Access => {
  const guarded = reportOtherSchema(async () =>
    (await database.migrationStates()).every(({ isApplied, isNewer }) => isApplied && !isNewer),
  );
  const readOf =
    (readIn: ReadAs): ReadAs =>
    (rowScope) => {
      const [connected, read] = [connectedIn(parts, rowScope), readIn(rowScope)];
      return guarded.read((statement) => connected(() => read(statement)));
    };
  const commitOf =
    (commitIn: CommitAs): CommitAs =>
    (rowScope) => {
      const [connected, commit] = [connectedIn(parts, rowScope), commitIn(rowScope)];
      return guarded.commit((statements) => connected(() => commit(statements)));
    };
  const transact = guarded.transact(createTransact(parts));
  const transactAs: TransactAs = (rowScope) => guarded.transact(createTransact(parts, rowScope));
  const ofReplica = replica && { ...parts, em: replica.em, connections: connectionSlots(limits) };
  const readAs = database.readAs && readOf(database.readAs);
  return {
    transact,
    transactAs,
    replicaAs: ofReplica ? (rowScope) => guarded.transact(createTransact(ofReplica, rowScope)) : transactAs,
    read: readAs?.() ?? readBy(transact),
    readAs,
    commitAs: database.commitAs ? commitOf(database.commitAs) : (rowScope) => commitBy(transactAs(rowScope)),
  };
};

const transactPartsOf = ({
  log,
  platform,
  clock,
}: Required<Pick<AppParts, "log" | "platform" | "clock">>) => ({
  em: platform.database.em,
  clock,
  wakeUps: wakeUpsOf(platform.queue),
  onError: (err: unknown) => log.error({ err }, "after a commit"),
  lanes: new Lanes(),
  connections: connectionSlots(platform.limits),
});

const clockOf = ({ clock }: Platform): (() => Date) => clock ?? (() => new Date());

const wakeUpsOf = (queue: Queue): WakeUps => ({
  outbox: (parts) => wakeAll(queue, "relay-outbox", parts),
  events: (parts) => wakeAll(queue, "process-events", parts),
  jobs: () => queue.wake("project-jobs", "*"),
  webhooks: (ids) => {
    for (const id of ids) queue.wake("deliver-webhooks", id);
  },
});

const wakeAll = (queue: Queue, job: QueuedJobName, parts: Iterable<number>): void => {
  for (const part of parts) queue.wake(job, String(part));
};

/** A dependency that has not answered within this time counts as down, in ms. */
const HEALTH_TIMEOUT_MS = 1_500;

const checkDependency = async ({ name, check }: Platform["dependencies"][number]): Promise<Health> => {
  try {
    await within(HEALTH_TIMEOUT_MS, check());
    return { name, ok: true };
  } catch (error) {
    return { name, ok: false, message: error instanceof Error ? error.message : String(error) };
  }
};
