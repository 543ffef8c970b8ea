import { createPrivateKey } from "node:crypto";
import type { Logger } from "pino";
import type { Config } from "./config.ts";
import { type ApiKeyHasher, createApiKeyHasher } from "./domain/accounts/api-keys/api-key.ts";
import type { BillingProvider } from "./domain/accounts/billing/provider.ts";
import type { Captcha } from "./domain/accounts/auth/one-time-secrets.ts";
import { createPasswords, type Passwords } from "./domain/accounts/auth/passwords.ts";
import { createTokens, type Tokens } from "./domain/accounts/auth/tokens.ts";
import type { Mail, Mailer } from "./domain/accounts/email/mail.ts";
import { createMail } from "./domain/accounts/email/deliveries.ts";
import { createRankMoves, type RankMoves, withOwnChanges } from "./domain/leaderboards/rank-moves.ts";
import { OwnChanges } from "./domain/kernel/caches.ts";
import { entrySource } from "./domain/leaderboards/leaderboards.ts";
import type { RankStore } from "./domain/evaluation/boards/ranks.ts";
import type { LiveRooms, Peers } from "./domain/kernel/live-rooms.ts";
import type { PasskeyVerifier } from "./domain/accounts/mfa/passkeys.ts";
import { KnownDomains } from "./domain/accounts/domains/known.ts";
import type { Acme } from "./domain/accounts/domains/order.ts";
import type { DnsRecords } from "./domain/accounts/domains/states.ts";
import type { SsoClients } from "./domain/accounts/sso/clients.ts";
import type { OAuthProviders } from "./domain/accounts/oauth/provider.ts";
import { type ThrottledWarning, throttledWarnings } from "./domain/kernel/outages.ts";
import { connectionSlots } from "./domain/kernel/bulkhead.ts";
import { connectedIn, createTransact, Lanes, type WakeUps } from "./domain/kernel/transact.ts";
import { KnownBlocks } from "./domain/accounts/rate-limits/ip-blocks.ts";
import type { Limiter } from "./domain/accounts/rate-limits/limiter.ts";
import { createSecretBox, type SecretBox } from "./domain/kernel/secret-box.ts";
import type { Topics } from "./domain/kernel/topics.ts";
import { createIngest, type Ingest, ingestIn } from "./domain/tracking/group-commit.ts";
import { createProjectRules, type ProjectRules } from "./domain/tracking/event-input.ts";
import {
  type CommitAs,
  commitBy,
  type Read,
  type ReadAs,
  readBy,
  reportOtherSchema,
} from "./domain/kernel/read.ts";
import { createSharedCommits, type SharedTransactAs } from "./domain/kernel/shared-commits.ts";
import type { Transact, TransactAs, Work } from "./domain/kernel/work.ts";
import type { WebhookSender } from "./domain/delivery/webhooks/delivering/sender.ts";
import { createStatsRecorder, type StatsRecorder } from "./domain/evaluation/running/stats.ts";
import { createEventTypeRecorder, type EventTypeRecorder } from "./domain/tracking/event-type-recorder.ts";
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
import type { Warehouse } from "./domain/analytics/warehouse/store.ts";
import { createWebhookSender } from "./platform/webhook-sender.ts";
import { within } from "./platform/within.ts";
import { type AnswerCaches, createAnswerCaches } from "./platform/answer-caches.ts";

/** Maximum number of events waiting for ingestion in one process; beyond that callers must retry. */
const INGEST_WAITING_MAX = 50_000;

export type Health = { name: string; ok: boolean; message?: string };

/** The functions that adapters (http, rooms, jobs, cli) are given. Tests replace a part by spread. */
export type App = AnswerCaches & {
  config: Config;
  log: Logger;
  /** Warns of an outage once in a while, however many rooms meet it together. */
  warnOfOutage: ThrottledWarning;
  clock: () => Date;
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
  /** As `transactAs`, for changes of players: requests of one project share transactions. */
  transactShared: SharedTransactAs;
  /** Stores validated events durably; simultaneous requests are committed together. */
  ingest: Ingest;
  /** As `ingest`, in a transaction in progress. */
  ingestIn: (work: Work) => Ingest;
  /** Returns which projects a caller's events may name. */
  projectRules: ProjectRules;
  ranks: RankStore;
  /** Puts committed changes of entries into the rank index. */
  rankMoves: RankMoves;
  /** Rule statistics and event types counted by this process and not written yet. */
  ruleStats: StatsRecorder;
  eventTypes: EventTypeRecorder;
  topics: Topics;
  /** The other processes that hold rooms; undefined where there can be none. */
  peers: Peers | undefined;
  /** The rooms of all processes; undefined in a process without rooms. */
  liveRooms: LiveRooms | undefined;
  queue: Queue;
  tokens: Tokens;
  passwords: Passwords;
  apiKeys: ApiKeyHasher;
  /** Encrypts stored values that must not be readable in the database. */
  secretBox: SecretBox;
  limiter: Limiter;
  /** Refuses addresses that are blocked. */
  blocks: KnownBlocks;
  captcha: Captcha;
  oauth: OAuthProviders;
  /** Speaks to the identity providers of tenants. */
  sso: SsoClients;
  /** The custom domains of all tenants that are held. */
  domains: KnownDomains;
  dns: DnsRecords;
  /** Orders certificates; undefined where this server gets none itself. */
  acme: Acme | undefined;
  passkeys: PasskeyVerifier;
  /** Speaks to the payment provider; undefined where no plans are sold. */
  billing: BillingProvider | undefined;
  mail: Mail;
  /** Sends one mail; workers only. */
  mailer: Mailer;
  /** Sends requests to addresses that tenants have configured. */
  webhookSender: WebhookSender;
  /** Where files for a warehouse are written; undefined where there is none. */
  warehouse: Warehouse | undefined;
  metrics: Metrics;
  limits: Limits;
  /** Maintains the database, if it does not maintain itself. */
  maintain: () => Promise<void>;
  /** Checks the services that this process depends on. */
  health: () => Promise<Health[]>;
};

type AppParts = {
  config: Config;
  log: Logger;
  metrics: Metrics;
  platform: Platform;
  clock?: () => Date;
};

/** Assembles the application; opens and starts nothing. */
export const createApp = ({ config, log, metrics, platform, clock = clockOf(platform) }: AppParts): App => {
  const { queue, limits, topics } = platform;
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
    warnOfOutage,
    clock,
    ...access,
    transactShared: sharedTransactOf(transactAs, limits, metrics),
    ingestIn: ingestIn({
      statementRows: limits.ingestRows,
      onStored: (parts) => wakeAll(queue, "process-events", parts),
    }),
    ingest: ingestOf(transact, platform),
    projectRules: createProjectRules(transact, clock),
    ranks,
    rankMoves: createRankMoves({ ranks, topics }),
    ...createAnswerCaches(metrics, changes),
    ruleStats: createStatsRecorder(),
    eventTypes: createEventTypeRecorder(),
    topics,
    peers: platform.peers,
    liveRooms: undefined,
    queue,
    tokens: createTokens({
      privateKey: createPrivateKey(config.secrets.jwtPrivateKey),
      issuer: config.publicUrl,
      clock,
    }),
    passwords: createPasswords(config.passwordCost),
    apiKeys: createApiKeyHasher(config.secrets.apiKeyPeppers),
    secretBox,
    limiter: platform.limiter,
    blocks: new KnownBlocks({ transact: transactAs({ role: "accounts" }), clock }),
    oauth: createOAuth(config.oauth, config),
    sso: createSso(config),
    domains: new KnownDomains({
      transact: transactAs({ role: "accounts" }),
      isOn: config.domains !== undefined,
      warn: warnOfOutage,
    }),
    dns: createDnsRecords(config.dnsServers),
    acme: config.domains?.acme && createAcme(config.domains.acme),
    passkeys: createPasskeys(config.passkeys),
    billing: config.billing && createStripe(config.billing, log),
    captcha: createCaptcha(config.captcha, log),
    mail: mailOf(config, secretBox, queue),
    mailer: createMailer(config.mail, log),
    webhookSender: createWebhookSender(config.outbound),
    warehouse: warehouseOf(config),
    metrics,
    limits,
    maintain: platform.maintain ?? (async () => undefined),
    health: () => Promise.all(platform.dependencies.map(checkDependency)),
  };
};

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

type Access = Pick<App, "transact" | "transactAs" | "replicaAs" | "read" | "readAs" | "commitAs">;

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
