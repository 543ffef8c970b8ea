import { Chips, Named } from "../ui/small.tsx";
import { useGo } from "../app/project.ts";
import { count, nameOf } from "../format.ts";
import { create } from "../ui/form.tsx";
import { Page } from "../ui/page.tsx";
import { List } from "../ui/table.tsx";

/** The first of a player's currencies: 3 coins. */
const purseOf = (currencies: Record<string, number>): string[] =>
  Object.entries(currencies)
    .slice(0, 3)
    .map(([key, amount]) => count(amount, key));

export const Players = () => {
  const go = useGo();
  return (
    <Page
      title="Players"
      actions={create("identifyPlayer", "Add a player", {
        first: ["externalUserId", "displayName"],
        onDone: ({ id }) => go(`/players/${id}`),
      })}
    >
      <List
        id="listPlayers"
        name="Players"
        filters={["search", "status", "tag", "segment", "minLevel", "maxLevel", "sort", "order"]}
        to={({ id }) => `/players/${id}`}
        empty="No players yet"
        hint="They appear with their first event."
        columns={{
          Player: (player) => (
            <Named name={nameOf(player)} more={player.displayName && player.externalUserId} />
          ),
          Level: "level",
          XP: "xp",
          Currencies: ({ currencies }) => <Chips of={purseOf(currencies as Record<string, number>)} />,
          Tags: ({ tags }) => <Chips of={tags.slice(0, 3)} />,
          Status: "status",
          "Last seen": "lastSeenAt",
        }}
        wide={["Currencies", "Tags", "Status"]}
      />
    </Page>
  );
};
