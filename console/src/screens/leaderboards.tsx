import { Act } from "../ui/act.tsx";
import { Button, Group, Modal, Select, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import type { Answer } from "../api/client.ts";
import { download } from "../api/client.ts";
import { tellError, useAct, useApi } from "../api/hooks.ts";
import { useMirror } from "../api/rooms.ts";
import { useCan } from "../api/session.ts";
import { number, words } from "../format.ts";
import { FormButton, OperationForm } from "../ui/form.tsx";
import { Empty, Loaded, Page } from "../ui/page.tsx";
import { Confirm, Facts, Section, Status, When, Named, Live } from "../ui/small.tsx";
import { LiveTable } from "../ui/live.tsx";
import { type Column, List, PlainTable, useOpen } from "../ui/table.tsx";
import { Pages } from "../ui/tabs.tsx";

type Board = Answer<"getLeaderboard">;

const FIRST = ["name", "key", "metric", "sort", "period", "prizes"];

export const Leaderboards = () => {
  const to = useTo();
  const can = useCan();
  const open = useOpen<{ id: string }>(({ id }) => to(`/leaderboards/${id}`));
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
      <Pages
        pages={{
          boards: [
            "Leaderboards",
            () => (
              <List
                id="listLeaderboards"
                name="Leaderboards"
                filters={["search", "status"]}
                onRow={open}
                empty={<Empty title="No leaderboards yet">{create}</Empty>}
                columns={[
                  {
                    title: "Name",
                    cell: ({ name, key }) => <Named name={name} more={key} />,
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
            ),
          ],
          reviews: can("listScoreReviews") && ["Held scores", () => <Reviews />],
        }}
      />
    </Page>
  );
};

/** Scores beyond a board's bounds, which somebody looks at before they count. */
const Reviews = () => {
  const can = useCan();
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
                  <Act
                    id="decideScoreReview"
                    path={{ reviewId: id }}
                    body={{ decision: "ACCEPT" }}
                    done="Decided"
                    isMain
                  >
                    Accept
                  </Act>
                  <Act
                    id="decideScoreReview"
                    path={{ reviewId: id }}
                    body={{ decision: "REJECT" }}
                    done="Decided"
                  >
                    Reject
                  </Act>
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
                  <Act id="resumeLeaderboard" path={path} done="Running again" size="sm">
                    Resume
                  </Act>
                ) : (
                  <Act id="pauseLeaderboard" path={path} done="Paused" size="sm">
                    Pause
                  </Act>
                )}
                <Act id="rebuildLeaderboard" path={path} done="Read from the database again" size="sm">
                  Rebuild
                </Act>
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
            <Pages
              pages={{
                live: ["Live", () => <LivePlaces board={found} />],
                all: ["All places", () => <Places board={found} />],
                periods: ["Periods and prizes", () => <Periods board={found} />],
                values: (found.breakdownAttribute ?? found.breakdownProperty) != null && [
                  "By value",
                  () => <Values board={found} />,
                ],
                design: can("updateLeaderboard") && [
                  "Design",
                  () => (
                    <OperationForm
                      id="updateLeaderboard"
                      path={path}
                      initial={found}
                      first={["name", "description", "prizes", "bounds"]}
                      hidden={["version"]}
                      fixed={{ version: found.version }}
                      key={found.version}
                    />
                  ),
                ],
              }}
            />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
};

type Place = { rank: number; playerId: string; externalUserId: string; displayName: string; score: number };

const PLACES: Column<Place>[] = [
  { title: "Rank", cell: ({ rank }) => number(rank), isNumber: true },
  { title: "Player", cell: ({ displayName, externalUserId }) => displayName || externalUserId },
  { title: "Score", cell: ({ score }) => number(score), isNumber: true },
];

/** The first hundred places, as the room of the board shows them. */
const LivePlaces = ({ board }: { board: Board }) => {
  const to = useTo();
  const [, go] = useLocation();
  const { shown, ...watched } = useMirror(
    "leaderboard",
    { leaderboardKey: board.key, top: 100 },
    (state) => ({
      places: Array.from(
        state.top as Iterable<Place>,
        ({ rank, playerId, externalUserId, displayName, score }) => ({
          rank,
          playerId,
          externalUserId,
          displayName,
          score,
        }),
      ),
      size: state.size as number,
      periodKey: state.periodKey as string,
    }),
  );
  const places = shown?.places ?? [];
  return (
    <Stack gap="xs">
      <Group>
        <Live {...watched} />
        <Text size="sm" c="dimmed">
          {shown && `${number(shown.size)} players${shown.periodKey ? `, period ${shown.periodKey}` : ""}`}
        </Text>
      </Group>
      {shown && places.length === 0 ? (
        <Empty title="Nobody is on it yet" />
      ) : (
        <LiveTable
          name="Places"
          rows={places}
          columns={PLACES}
          onRow={({ playerId }) => go(to(`/players/${playerId}`))}
          height="60vh"
        />
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
