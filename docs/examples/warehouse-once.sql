-- Makes the tables of a warehouse in DuckDB, once: see docs/guides/warehouse.md.
create table events (
  "version" bigint, "eventId" uuid primary key, "projectId" uuid, "eventType" varchar, "playerId" uuid,
  "externalUserId" varchar, "occurredAt" timestamptz, "receivedAt" timestamptz, "source" varchar,
  "idempotencyKey" varchar, "properties" json, "status" varchar, "error" varchar, "effects" json, "ledger" json);
create table merges ("version" bigint, "mergeId" uuid primary key, "projectId" uuid, "sourcePlayerId" uuid,
  "targetPlayerId" uuid, "at" timestamptz);
create table ledger (
  "version" bigint, "lineId" uuid primary key, "projectId" uuid, "playerId" uuid, "seq" bigint, "asset" varchar,
  "currency" varchar, "amount" bigint, "balanceAfter" bigint, "kind" varchar, "ruleKey" varchar, "refKey" varchar,
  "refId" varchar, "reverses" uuid, "at" timestamptz);
create table rewards (
  "version" bigint, "grantId" uuid primary key, "projectId" uuid, "playerId" uuid, "rewardKey" varchar,
  "quantity" bigint, "status" varchar, "priceCurrency" varchar, "priceAmount" bigint, "kind" varchar,
  "ruleKey" varchar, "eventId" uuid, "expiresAt" timestamptz, "createdAt" timestamptz, "updatedAt" timestamptz);
create table loaded ("projectId" uuid primary key, "sequence" bigint);
