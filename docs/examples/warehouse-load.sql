-- Loads what is fresh into DuckDB, as often as you like: see docs/guides/warehouse.md.
set variable root = '/var/lib/laurel/warehouse';
begin;
create or replace temp table fresh as
  with manifest as (
    select * from read_json(getvariable('root') || '/manifest/*/*.json', hive_partitioning = false,
      columns = {"projectId": 'uuid', "sequence": 'bigint', "kind": 'varchar', "path": 'varchar',
        "replaces": 'varchar'}))
  select m.*, getvariable('root') || '/' || m."path" as file
  from manifest m left join loaded l using ("projectId")
  where m."sequence" > coalesce(l."sequence", 0)
    and not exists (select 1 from manifest r where r."replaces" = m."path");
-- An entry of the manifest, so that no list of files is empty: it has no id.
set variable none = (select min(file) from glob(getvariable('root') || '/manifest/*/*.json'));
set variable files = (
  select list_append(coalesce(list(file), []), getvariable('none')) from fresh where "kind" in ('events', 'changes'));
set variable merged = (
  select list_append(coalesce(list(file), []), getvariable('none')) from fresh where "kind" = 'merges');
set variable lines = (
  select list_append(coalesce(list(file), []), getvariable('none')) from fresh where "kind" = 'ledger');
set variable grants = (
  select list_append(coalesce(list(file), []), getvariable('none')) from fresh where "kind" = 'rewards');
insert into events
  select * from read_json(getvariable('files'), format = 'newline_delimited', hive_partitioning = false,
    maximum_object_size = 268435456, columns = {"version": 'bigint', "eventId": 'uuid', "projectId": 'uuid',
      "eventType": 'varchar', "playerId": 'uuid', "externalUserId": 'varchar', "occurredAt": 'timestamptz',
      "receivedAt": 'timestamptz', "source": 'varchar', "idempotencyKey": 'varchar', "properties": 'json',
      "status": 'varchar', "error": 'varchar', "effects": 'json', "ledger": 'json'})
  where "eventId" is not null
  qualify row_number() over (partition by "eventId" order by "version" desc) = 1
  on conflict ("eventId") do update set "version" = excluded."version", "playerId" = excluded."playerId",
    "externalUserId" = excluded."externalUserId", "idempotencyKey" = excluded."idempotencyKey",
    "properties" = excluded."properties", "status" = excluded."status", "error" = excluded."error",
    "effects" = excluded."effects", "ledger" = excluded."ledger"
  where excluded."version" > events."version";
insert into merges
  select * from read_json(getvariable('merged'), format = 'newline_delimited', hive_partitioning = false,
    columns = {"version": 'bigint', "mergeId": 'uuid', "projectId": 'uuid', "sourcePlayerId": 'uuid',
      "targetPlayerId": 'uuid', "at": 'timestamptz'})
  where "mergeId" is not null on conflict do nothing;
insert into ledger
  select * from read_json(getvariable('lines'), format = 'newline_delimited', hive_partitioning = false,
    columns = {"version": 'bigint', "lineId": 'uuid', "projectId": 'uuid', "playerId": 'uuid', "seq": 'bigint',
      "asset": 'varchar', "currency": 'varchar', "amount": 'bigint', "balanceAfter": 'bigint', "kind": 'varchar',
      "ruleKey": 'varchar', "refKey": 'varchar', "refId": 'varchar', "reverses": 'uuid', "at": 'timestamptz'})
  where "lineId" is not null on conflict do nothing;
insert into rewards
  select * from read_json(getvariable('grants'), format = 'newline_delimited', hive_partitioning = false,
    columns = {"version": 'bigint', "grantId": 'uuid', "projectId": 'uuid', "playerId": 'uuid',
      "rewardKey": 'varchar', "quantity": 'bigint', "status": 'varchar', "priceCurrency": 'varchar',
      "priceAmount": 'bigint', "kind": 'varchar', "ruleKey": 'varchar', "eventId": 'uuid',
      "expiresAt": 'timestamptz', "createdAt": 'timestamptz', "updatedAt": 'timestamptz'})
  where "grantId" is not null
  qualify row_number() over (partition by "grantId" order by "version" desc) = 1
  on conflict ("grantId") do update set "version" = excluded."version", "playerId" = excluded."playerId",
    "status" = excluded."status", "updatedAt" = excluded."updatedAt"
  where excluded."version" > rewards."version";
insert into loaded select "projectId", max("sequence") from fresh group by "projectId"
  on conflict ("projectId") do update set "sequence" = excluded."sequence";
commit;
