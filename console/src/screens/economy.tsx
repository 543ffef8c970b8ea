import { Badge, Grid, Group, SimpleGrid, Stack, Tabs, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import { type Id } from "../api/client.ts";
import { useAct, useAny, useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { number, words } from "../format.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { JobProgress } from "../ui/job.tsx";
import { Empty, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Facts, Json, Section, Status, Tile, When, Named } from "../ui/small.tsx";
import { type Column, List } from "../ui/table.tsx";
import { Curve, EventTypes } from "./levels.tsx";

/** A kind of definition, by the names of its operations and of what a designer sees of it. */
type Kind = {
  title: string;
  /** What one of them is. */
  one: string;
  about: string;
  list: Id;
  get: Id;
  create: Id;
  update: Id;
  archive: Id;
  param: string;
  first: string[];
  initial?: object;
  columns: Column<any>[];
  /** More about one of them. */
  more?: (row: any) => ReactNode;
};

const KINDS: Record<string, Kind> = {
  currencies: {
    title: "Currencies",
    one: "currency",
    about: "What players earn and spend: coins, gems, energy.",
    list: "listCurrencies",
    get: "getCurrency",
    create: "createCurrency",
    update: "updateCurrency",
    archive: "archiveCurrency",
    param: "currencyId",
    first: ["name", "key", "initialBalance", "maxBalance"],
    columns: [
      { title: "At the start", cell: ({ initialBalance }) => number(initialBalance), isNumber: true },
      { title: "At most", cell: ({ maxBalance }) => number(maxBalance), isNumber: true },
      {
        title: "Expires",
        cell: ({ expiryDays }) => (expiryDays ? `after ${expiryDays} days` : "never"),
        isWideOnly: true,
      },
    ],
  },
  badges: {
    title: "Badges",
    one: "badge",
    about: "What players show: once, in tiers, or again and again.",
    list: "listBadges",
    get: "getBadge",
    create: "createBadge",
    update: "updateBadge",
    archive: "archiveBadge",
    param: "badgeId",
    first: ["name", "key", "description", "rarity", "tiers", "progressMetric"],
    columns: [
      { title: "Rarity", cell: ({ rarity }) => <Badge color="violet">{words(rarity)}</Badge> },
      { title: "Tiers", cell: ({ tiers }) => number(tiers.length), isNumber: true },
      { title: "Points", cell: ({ points }) => number(points), isNumber: true, isWideOnly: true },
    ],
    more: ({ id }) => <Holders id={id} />,
  },
  streaks: {
    title: "Streaks",
    one: "streak",
    about: "Days, weeks or months in a row, with freezes and repairs.",
    list: "listStreaks",
    get: "getStreak",
    create: "createStreak",
    update: "updateStreak",
    archive: "archiveStreak",
    param: "streakId",
    first: ["name", "key", "period", "qualify"],
    columns: [
      { title: "Every", cell: ({ period }) => words(period) },
      {
        title: "Grace",
        cell: ({ graceSeconds }) => `${number(graceSeconds / 3600)} h`,
        isNumber: true,
        isWideOnly: true,
      },
    ],
  },
  rewards: {
    title: "Rewards",
    one: "reward",
    about: "Bundles of the economy and prizes with codes: given, claimed or bought.",
    list: "listRewards",
    get: "getReward",
    create: "createReward",
    update: "updateReward",
    archive: "archiveReward",
    param: "rewardId",
    first: ["name", "key", "kind", "bundle", "price", "stock"],
    initial: { kind: "BUNDLE" },
    columns: [
      { title: "Kind", cell: ({ kind }) => words(kind) },
      {
        title: "Price",
        cell: ({ price }) => (price ? `${number(price.amount)} ${price.currencyKey}` : "–"),
        isNumber: true,
      },
      { title: "Stock", cell: ({ stock }) => number(stock), isNumber: true, isWideOnly: true },
    ],
    more: (reward) => <Stock reward={reward} />,
  },
  boosts: {
    title: "Boosts",
    one: "boost",
    about: "Double XP for a weekend: multiplies what players get, for all or for a segment.",
    list: "listBoosts",
    get: "getBoost",
    create: "createBoost",
    update: "updateBoost",
    archive: "archiveBoost",
    param: "boostId",
    first: ["name", "key", "applies", "factor", "startsAt", "expiresAt"],
    initial: { applies: "xp", factor: 2 },
    columns: [
      { title: "Applies to", cell: ({ applies }) => words(applies) },
      { title: "Factor", cell: ({ factor }) => `× ${number(factor)}`, isNumber: true },
      { title: "From", cell: ({ startsAt }) => <When at={startsAt} />, isWideOnly: true },
      { title: "Until", cell: ({ expiresAt }) => <When at={expiresAt} /> },
    ],
  },
  segments: {
    title: "Segments",
    one: "segment",
    about: "Groups of players, by a list or by conditions that are kept up to date.",
    list: "listSegments",
    get: "getSegment",
    create: "createSegment",
    update: "updateSegment",
    archive: "archiveSegment",
    param: "segmentId",
    first: ["name", "key", "kind", "definition"],
    initial: { kind: "DYNAMIC" },
    columns: [
      { title: "Kind", cell: ({ kind }) => words(kind) },
      { title: "Members", cell: ({ memberCount }) => number(memberCount), isNumber: true },
    ],
    more: (segment) => <Members segment={segment} />,
  },
  levels: {
    title: "Level names",
    one: "level",
    about: "Names, rewards and perks of single levels.",
    list: "listLevels",
    get: "getLevel",
    create: "createLevel",
    update: "updateLevel",
    archive: "archiveLevel",
    param: "levelId",
    first: ["name", "key", "rewards"],
    columns: [
      {
        title: "Rewards",
        cell: ({ rewards }) => (rewards ? Object.keys(rewards).map(words).join(", ") : "–"),
      },
    ],
  },
};

export const Economy = ({ kind = "currencies" }: { kind?: string }) => {
  const to = useTo();
  const [, go] = useLocation();
  const can = useCan();
  const [job, setJob] = useState<string>();
  return (
    <Page
      title="Economy"
      actions={
        can("startBulkGrant") && (
          <FormButton
            id="startBulkGrant"
            label="Give to many"
            variant="default"
            first={["segmentKey", "bundle", "reason"]}
            submit="Give"
            done="Giving"
            onDone={({ id }) => setJob(id)}
          />
        )
      }
    >
      {job && <JobProgress id={job} title="Grant to many" />}
      <Tabs
        value={kind}
        onChange={(next) => go(to(next === "currencies" ? "/economy" : `/economy/${next}`))}
        keepMounted={false}
      >
        <Tabs.List>
          {Object.entries(KINDS).map(([name, { title, list }]) =>
            can(list) ? (
              <Tabs.Tab key={name} value={name}>
                {title}
              </Tabs.Tab>
            ) : null,
          )}
          <Tabs.Tab value="curve">Level curve</Tabs.Tab>
          <Tabs.Tab value="event-types">Event types</Tabs.Tab>
        </Tabs.List>
      </Tabs>
      {kind === "curve" ? (
        <Curve />
      ) : kind === "event-types" ? (
        <EventTypes />
      ) : Object.hasOwn(KINDS, kind) ? (
        <Definitions kind={kind} of={KINDS[kind]!} key={kind} />
      ) : (
        <Empty title="There is no such kind of definition" />
      )}
    </Page>
  );
};

const Definitions = ({ kind, of }: { kind: string; of: Kind }) => {
  const to = useTo();
  const [, go] = useLocation();
  const can = useCan();
  const create = can(of.create) && (
    <FormButton
      id={of.create}
      label={`New ${of.one}`}
      size="xs"
      first={of.first}
      initial={of.initial}
      done="Created"
      onDone={({ id }) => go(to(`/economy/${kind}/${id}`))}
    />
  );
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Text size="sm" c="dimmed">
          {of.about}
        </Text>
        {create}
      </Group>
      <List
        id={of.list as "listBadges"}
        name={of.title}
        filters={["search", "status"]}
        onRow={({ id }) => go(to(`/economy/${kind}/${id}`))}
        empty={<Empty title={`No ${of.title.toLowerCase()} yet`}>{create}</Empty>}
        columns={[
          {
            title: "Name",
            cell: ({ name, key }) => <Named name={name} more={key} />,
          },
          ...of.columns,
          { title: "Status", cell: ({ status }) => <Status value={status} /> },
          { title: "Changed", cell: ({ updatedAt }) => <When at={updatedAt} />, isWideOnly: true },
        ]}
      />
    </Stack>
  );
};

/** Fields that the server keeps, and no form sends. */
const KEPT = ["id", "status", "version", "createdAt", "updatedAt", "memberCount", "projectId"];

export const DefinitionPage = ({ kind, id }: { kind: string; id: string }) =>
  Object.hasOwn(KINDS, kind) ? <Definition kind={kind} of={KINDS[kind]!} id={id} /> : <Economy kind={kind} />;

const Definition = ({ kind, of, id }: { kind: string; of: Kind; id: string }) => {
  const to = useTo();
  const [, go] = useLocation();
  const can = useCan();
  const path = { [of.param]: id };
  const found = useAny(of.get, { path });
  const archive = useAct(of.archive, { done: "Archived", onDone: () => go(to(`/economy/${kind}`)) });
  const row = found.data;
  return (
    <Page
      title={row?.name ?? words(of.one)}
      parent={{ title: of.title, to: to(kind === "currencies" ? "/economy" : `/economy/${kind}`) }}
      actions={
        row &&
        row.status === "ACTIVE" &&
        can(of.archive) && (
          <Confirm
            label="Archive"
            title={`Archive ${row.name}?`}
            name={row.key}
            size="sm"
            onConfirm={() => archive.mutateAsync({ path } as never)}
          >
            It cannot be given any more. What players have of it stays.
          </Confirm>
        )
      }
    >
      <Loaded query={found}>
        {(data: any) => {
          const editable = Object.fromEntries(
            Object.entries(data).filter(([name, value]) => !KEPT.includes(name) && value !== null),
          );
          return (
            <Grid>
              <Grid.Col span={{ base: 12, md: of.more ? 6 : 8 }}>
                <Facts
                  of={{
                    Status: <Status value={data.status} />,
                    Key: data.key,
                    Version: data.version,
                    Changed: <When at={data.updatedAt} />,
                  }}
                />
                {can(of.update) && data.status === "ACTIVE" ? (
                  <OperationForm
                    id={of.update}
                    path={path}
                    initial={editable}
                    first={of.first}
                    fixed={"version" in data ? { version: data.version } : {}}
                    hidden={["key", "version", "kind"]}
                    key={data.version}
                  />
                ) : (
                  <Json value={editable} />
                )}
              </Grid.Col>
              {of.more && <Grid.Col span={{ base: 12, md: 6 }}>{of.more(data)}</Grid.Col>}
            </Grid>
          );
        }}
      </Loaded>
    </Page>
  );
};

const Holders = ({ id }: { id: string }) => {
  const to = useTo();
  const [, go] = useLocation();
  return (
    <Section title="Who has it">
      <List
        id="listBadgeHolders"
        path={{ badgeId: id }}
        name="Holders"
        limit={10}
        onRow={({ playerId }) => go(to(`/players/${playerId}`))}
        empty={<Empty title="Nobody yet" />}
        keyOf={({ playerId }) => playerId}
        columns={[
          { title: "Player", cell: ({ displayName, externalUserId }) => displayName ?? externalUserId },
          { title: "Tier", cell: ({ tier }) => tier, isNumber: true },
          { title: "Earned", cell: ({ lastEarnedAt }) => <When at={lastEarnedAt} /> },
        ]}
      />
    </Section>
  );
};

const Stock = ({ reward }: { reward: any }) => {
  const path = { rewardId: reward.id };
  const stock = useApi("getRewardStock", { path });
  const can = useCan();
  return (
    <Section
      title="Stock"
      actions={
        can("addRewardCodes") &&
        reward.fulfilment === "CODE" && (
          <FormButton
            id="addRewardCodes"
            path={path}
            label="Add codes"
            size="xs"
            variant="default"
            submit="Add"
            done="Added"
          />
        )
      }
    >
      <Loaded query={stock} lines={2}>
        {(data) => (
          <SimpleGrid cols={2}>
            <Tile name="Given" value={number(data.given)} />
            <Tile name="Left" value={data.left == null ? "no limit" : number(data.left)} />
            {data.freeCodes != null && <Tile name="Free codes" value={number(data.freeCodes)} />}
          </SimpleGrid>
        )}
      </Loaded>
      {can("grantReward") && (
        <Group>
          <FormButton
            id="grantReward"
            path={path}
            label="Give to a player"
            size="xs"
            variant="default"
            first={["playerId", "quantity"]}
            submit="Give"
            done="Given"
          />
        </Group>
      )}
    </Section>
  );
};

const Members = ({ segment }: { segment: any }) => {
  const to = useTo();
  const [, go] = useLocation();
  const can = useCan();
  const path = { segmentId: segment.id };
  return (
    <Section
      title={`${number(segment.memberCount)} members`}
      actions={
        segment.kind === "STATIC" &&
        can("addSegmentMembers") && (
          <>
            <FormButton
              id="addSegmentMembers"
              path={path}
              label="Add"
              size="xs"
              variant="default"
              submit="Add"
              done="Added"
            />
            <FormButton
              id="removeSegmentMembers"
              path={path}
              label="Remove"
              size="xs"
              variant="default"
              submit="Remove"
              done="Removed"
            />
          </>
        )
      }
    >
      <List
        id="listSegmentMembers"
        path={path}
        name="Members"
        limit={10}
        onRow={({ playerId }) => go(to(`/players/${playerId}`))}
        empty={<Empty title="Nobody yet" />}
        keyOf={({ playerId }) => playerId}
        columns={[
          { title: "Player", cell: ({ displayName, externalUserId }) => displayName ?? externalUserId },
          { title: "Since", cell: ({ enteredAt }) => <When at={enteredAt} /> },
        ]}
      />
    </Section>
  );
};
