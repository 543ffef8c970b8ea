import { Badge, Button, Group, Modal, Select, Stack, Table, Tabs, Text } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import type { Answer } from "../api/client.ts";
import { download } from "../api/client.ts";
import { tellError, useAct, useApi } from "../api/hooks.ts";
import { useRoom } from "../api/rooms.ts";
import { useCan } from "../api/session.ts";
import { number, words } from "../format.ts";
import { useFilters } from "../ui/filters.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { Empty, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Facts, Section, Status, When } from "../ui/small.tsx";
import { List, PlainTable, useOpen } from "../ui/table.tsx";

type Board = Answer<"getLeaderboard">;

const FIRST = ["name", "key", "metric", "sort", "period", "prizes"];

export const Leaderboards = () => {
  const to = useTo();
  const can = useCan();
  const open = useOpen<{ id: string }>(({ id }) => to(`/leaderboards/${id}`));
  const [{ tab }, choose] = useFilters({ tab: "boards" });
  const create = can("createLeaderboard") && (
    <FormButton
      id="createLeaderboard"
      label="New leaderboard"
      first={FIRST}
      initial={{ key: "weekly-xp", name: "XP of the week", metric: { source: "XP" } }}
      done="Created"
      onDone={open}
    />
  );
  return (
    <Page title="Leaderboards" actions={create}>
      <Tabs
        value={tab ?? "boards"}
        onChange={(next) => choose({ tab: next ?? "boards" })}
        keepMounted={false}
      >
        <Tabs.List>
          <Tabs.Tab value="boards">Leaderboards</Tabs.Tab>
          {can("listScoreReviews") && <Tabs.Tab value="reviews">Held scores</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="boards" pt="sm">
          <List
            id="listLeaderboards"
            name="Leaderboards"
            filters={["search", "status"]}
            onRow={open}
            empty={<Empty title="No leaderboards yet">{create}</Empty>}
            columns={[
              {
                title: "Name",
                cell: ({ name, key }) => (
                  <>
                    <Text size="sm" fw={500}>
                      {name}
                    </Text>
                    <Text size="xs" c="dimmed">
                      {key}
                    </Text>
                  </>
                ),
              },
              {
                title: "Ranks by",
                cell: ({ metric }) => words((metric as any).source ?? (metric as any).aggregate ?? ""),
              },
              { title: "Period", cell: ({ period }) => words(period.kind), isWideOnly: true },
              { title: "Status", cell: ({ status }) => <Status value={status} /> },
              { title: "Changed", cell: ({ updatedAt }) => <When at={updatedAt} />, isWideOnly: true },
            ]}
          />
        </Tabs.Panel>
        <Tabs.Panel value="reviews" pt="sm">
          <Reviews />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
};

/** Scores beyond a board's bounds, which somebody looks at before they count. */
const Reviews = () => {
  const can = useCan();
  const decide = useAct("decideScoreReview", { done: "Decided" });
  return (
    <List
      id="listScoreReviews"
      name="Held scores"
      filters={["status"]}
      defaults={{ status: "OPEN" }}
      empty={<Empty title="No score is held" />}
      columns={[
        { title: "When", cell: ({ submittedAt }) => <When at={submittedAt} /> },
        { title: "Leaderboard", cell: ({ leaderboardKey }) => leaderboardKey },
        { title: "Player", cell: ({ externalUserId }) => externalUserId },
        { title: "Score", cell: ({ score }) => number(score), isNumber: true },
        { title: "Why", cell: ({ violation }) => words(violation) },
        { title: "Status", cell: ({ status }) => <Status value={status} /> },
      ]}
      actions={
        can("decideScoreReview")
          ? ({ id, status }) =>
              status === "OPEN" && (
                <>
                  <Button
                    size="compact-xs"
                    onClick={() => decide.mutate({ path: { reviewId: id }, body: { decision: "ACCEPT" } })}
                  >
                    Accept
                  </Button>
                  <Button
                    size="compact-xs"
                    variant="default"
                    onClick={() => decide.mutate({ path: { reviewId: id }, body: { decision: "REJECT" } })}
                  >
                    Reject
                  </Button>
                </>
              )
          : undefined
      }
    />
  );
};

export const LeaderboardPage = ({ id }: { id: string }) => {
  const path = { leaderboardId: id };
  const board = useApi("getLeaderboard", { path });
  const to = useTo();
  const can = useCan();
  const [, go] = useLocation();
  const [{ tab }, choose] = useFilters({ tab: "live" });
  const pause = useAct("pauseLeaderboard", { done: "Paused" });
  const resume = useAct("resumeLeaderboard", { done: "Running again" });
  const rebuild = useAct("rebuildLeaderboard", { done: "Read from the database again" });
  const archive = useAct("archiveLeaderboard", { done: "Archived", onDone: () => go(to("/leaderboards")) });
  const data = board.data;
  return (
    <Page
      title={data?.name ?? "Leaderboard"}
      parent={{ title: "Leaderboards", to: to("/leaderboards") }}
      actions={
        data && (
          <>
            <Button
              variant="default"
              onClick={() =>
                void download("exportLeaderboard", `${data.key}.csv`, {
                  path,
                  query: { format: "csv" },
                }).catch(tellError)
              }
            >
              Save as CSV
            </Button>
            {can("resetLeaderboard") && data.status !== "ARCHIVED" && (
              <>
                {data.status === "PAUSED" ? (
                  <Button variant="default" onClick={() => resume.mutate({ path })}>
                    Resume
                  </Button>
                ) : (
                  <Button variant="default" onClick={() => pause.mutate({ path })}>
                    Pause
                  </Button>
                )}
                <Button variant="default" onClick={() => rebuild.mutate({ path })}>
                  Rebuild
                </Button>
                <FormButton
                  id="resetLeaderboard"
                  path={path}
                  label="End the period now"
                  variant="default"
                  about="The period closes with its places, and a new one begins."
                  submit="End it"
                  done="A new period has begun"
                />
                <Confirm
                  label="Archive"
                  size="sm"
                  title={`Archive ${data.name}?`}
                  name={data.key}
                  onConfirm={() => archive.mutateAsync({ path })}
                >
                  It counts nothing any more and leaves the lists.
                </Confirm>
              </>
            )}
          </>
        )
      }
    >
      <Loaded query={board}>
        {(found) => (
          <Stack>
            <Facts
              of={{
                Status: <Status value={found.status} />,
                Key: found.key,
                "Better is": found.sort === "DESC" ? "more" : "less",
                Period: words(found.period.kind),
              }}
            />
            <Tabs
              value={tab ?? "live"}
              onChange={(next) => choose({ tab: next ?? "live" })}
              keepMounted={false}
            >
              <Tabs.List>
                <Tabs.Tab value="live">Live</Tabs.Tab>
                <Tabs.Tab value="all">All places</Tabs.Tab>
                <Tabs.Tab value="periods">Periods and prizes</Tabs.Tab>
                {(found.breakdownAttribute ?? found.breakdownProperty) && (
                  <Tabs.Tab value="values">By value</Tabs.Tab>
                )}
                {can("updateLeaderboard") && <Tabs.Tab value="design">Design</Tabs.Tab>}
              </Tabs.List>
              <Tabs.Panel value="live" pt="sm">
                <Live board={found} />
              </Tabs.Panel>
              <Tabs.Panel value="all" pt="sm">
                <Places board={found} />
              </Tabs.Panel>
              <Tabs.Panel value="periods" pt="sm">
                <Periods board={found} />
              </Tabs.Panel>
              <Tabs.Panel value="values" pt="sm">
                <Values board={found} />
              </Tabs.Panel>
              <Tabs.Panel value="design" pt="sm">
                {can("updateLeaderboard") && (
                  <OperationForm
                    id="updateLeaderboard"
                    path={path}
                    initial={found}
                    first={["name", "description", "prizes", "bounds"]}
                    hidden={["version"]}
                    fixed={{ version: found.version }}
                    key={found.version}
                  />
                )}
              </Tabs.Panel>
            </Tabs>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
};

type Place = { rank: number; playerId: string; externalUserId: string; displayName: string; score: number };
/** A board that moves a hundred times a second is drawn this often. */
const RENDER_MS = 250;

/** The first hundred places, as the room of the board shows them. */
const Live = ({ board }: { board: Board }) => {
  const [places, setPlaces] = useState<Place[]>([]);
  const [about, setAbout] = useState({ size: 0, periodKey: "" });
  const changed = useRef<(() => void) | undefined>(undefined);
  const to = useTo();
  const [, go] = useLocation();
  const watched = useRoom("leaderboard", { leaderboardKey: board.key, top: 100 }, (room) => {
    room.onStateChange((state: any) => {
      changed.current = () => {
        setPlaces(
          Array.from(
            state.top as Iterable<Place>,
            ({ rank, playerId, externalUserId, displayName, score }) => ({
              rank,
              playerId,
              externalUserId,
              displayName,
              score,
            }),
          ),
        );
        setAbout({ size: state.size, periodKey: state.periodKey });
      };
    });
  });
  useEffect(() => {
    const timer = setInterval(() => {
      changed.current?.();
      changed.current = undefined;
    }, RENDER_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <Stack gap="xs">
      <Group>
        <Badge color={watched.status === "live" ? "teal" : "yellow"}>
          {watched.status === "live" ? "Live" : (watched.why ?? "Connecting")}
        </Badge>
        <Text
          size="sm"
          c="dimmed"
        >{`${number(about.size)} players${about.periodKey ? `, period ${about.periodKey}` : ""}`}</Text>
      </Group>
      {watched.status === "live" && places.length === 0 ? (
        <Empty title="Nobody is on it yet" />
      ) : (
        <div className="live-rows" style={{ height: "60vh" }} tabIndex={0} role="region" aria-label="Places">
          <Table aria-label="Places" highlightOnHover>
            <Table.Thead>
              <Table.Tr>
                <Table.Th className="number">Rank</Table.Th>
                <Table.Th>Player</Table.Th>
                <Table.Th className="number">Score</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {places.map(({ rank, playerId, externalUserId, displayName, score }) => (
                <Table.Tr
                  key={playerId}
                  className="clickable"
                  tabIndex={0}
                  onClick={() => go(to(`/players/${playerId}`))}
                  onKeyDown={(event) => event.key === "Enter" && go(to(`/players/${playerId}`))}
                >
                  <Table.Td className="number">{number(rank)}</Table.Td>
                  <Table.Td>{displayName || externalUserId}</Table.Td>
                  <Table.Td className="number">{number(score)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </div>
      )}
    </Stack>
  );
};

const Places = ({ board }: { board: Board }) => {
  const path = { leaderboardId: board.id };
  const to = useTo();
  const [, go] = useLocation();
  const can = useCan();
  const remove = useAct("removeLeaderboardPlayer", { done: "Taken off the leaderboard" });
  return (
    <List
      id="listLeaderboardEntries"
      path={path}
      name="Places"
      filters={["period", "around", "board"]}
      limit={50}
      onRow={({ playerId }) => go(to(`/players/${playerId}`))}
      keyOf={({ playerId }) => playerId}
      empty={<Empty title="Nobody is on it yet" />}
      columns={[
        { title: "Rank", cell: ({ rank }) => number(rank), isNumber: true },
        { title: "Player", cell: ({ displayName, externalUserId }) => displayName ?? externalUserId },
        { title: "Score", cell: ({ score }) => number(score), isNumber: true },
        { title: "Reached", cell: ({ reachedAt }) => <When at={reachedAt} />, isWideOnly: true },
      ]}
      actions={
        can("removeLeaderboardPlayer")
          ? ({ playerId, displayName, externalUserId }) => (
              <Confirm
                label="Take off"
                size="compact-xs"
                title={`Take ${displayName ?? externalUserId} off?`}
                onConfirm={() =>
                  remove.mutateAsync({ path: { ...path, playerId }, body: { ban: true } } as never)
                }
              >
                Their score goes, and later scores do not count on this leaderboard.
              </Confirm>
            )
          : undefined
      }
    />
  );
};

const Periods = ({ board }: { board: Board }) => {
  const path = { leaderboardId: board.id };
  const [open, setOpen] = useState<string>();
  return (
    <>
      <List
        id="listLeaderboardPeriods"
        path={path}
        name="Periods"
        filters={["status"]}
        onRow={({ key, status }) => status === "CLOSED" && setOpen(key)}
        columns={[
          { title: "Period", cell: ({ key }) => key },
          { title: "Status", cell: ({ status }) => <Status value={status} /> },
          { title: "Players", cell: ({ participants }) => number(participants), isNumber: true },
          {
            title: "First",
            cell: ({ leader }) =>
              leader
                ? `${leader.player?.displayName ?? leader.player?.externalUserId} (${number(leader.score)})`
                : "–",
          },
          { title: "Ends", cell: ({ endsAt }) => <When at={endsAt} /> },
        ]}
      />
      <Modal
        opened={open !== undefined}
        onClose={() => setOpen(undefined)}
        title={`Places of ${open}`}
        size="lg"
      >
        {open && <Results path={{ ...path, periodKey: open }} />}
      </Modal>
    </>
  );
};

const Results = ({ path }: { path: { leaderboardId: string; periodKey: string } }) => {
  const results = useApi("listLeaderboardResults", { path, query: { limit: 100 } });
  return (
    <Loaded query={results}>
      {({ data }) => (
        <PlainTable
          name="Places"
          rows={data}
          keyOf={({ rank, player }) => player?.playerId ?? String(rank)}
          columns={[
            { title: "Rank", cell: ({ rank }) => number(rank), isNumber: true },
            {
              title: "Player",
              cell: ({ player }) => player?.displayName ?? player?.externalUserId ?? "erased",
            },
            { title: "Score", cell: ({ score }) => number(score), isNumber: true },
            {
              title: "Prize",
              cell: ({ prize }) => (prize ? `${prize.prize + 1}: ${words(prize.status)}` : "–"),
            },
          ]}
        />
      )}
    </Loaded>
  );
};

const ORDERS = ["total", "average", "best", "players"] as const;

/** Teams, countries or whatever the board is broken down by, against each other. */
const Values = ({ board }: { board: Board }) => {
  const [by, setBy] = useState<(typeof ORDERS)[number]>("total");
  const values = useApi(
    "listLeaderboardValues",
    { path: { leaderboardId: board.id }, query: { by, limit: 100 } },
    { refetchInterval: 5_000 },
  );
  return (
    <Section
      title="By value"
      actions={
        <Select
          aria-label="Ranked by"
          size="xs"
          data={ORDERS.map((value) => ({ value, label: words(value) }))}
          value={by}
          onChange={(next) => next && setBy(next as typeof by)}
          allowDeselect={false}
        />
      }
    >
      <Loaded query={values}>
        {({ data }) => (
          <PlainTable
            name="Values"
            rows={data}
            keyOf={({ value }) => value}
            columns={[
              { title: "Rank", cell: ({ rank }) => number(rank), isNumber: true },
              { title: "Value", cell: ({ value }) => value },
              { title: "Players", cell: ({ players }) => number(players), isNumber: true },
              { title: "Total", cell: ({ total }) => number(total), isNumber: true },
              { title: "Average", cell: ({ average }) => number(average), isNumber: true },
              { title: "Best", cell: ({ best }) => number(best), isNumber: true },
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
};
