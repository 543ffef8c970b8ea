import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, type SpotlightActionData } from "@mantine/spotlight";
import { useEffect, useState } from "react";
import { useLocation } from "wouter";
import { signOut, useApi } from "../api/hooks.ts";
import { words } from "../format.ts";
import { Icon } from "../ui/icons.tsx";
import { useScreens } from "./routes.ts";

const ECONOMY = /^(currency|badge|streak|reward|boost|segment)$/;

/** Where what the search finds is shown: a quest below /quests, a badge below /economy/badges. */
const placeOf = (kind: string): string =>
  `${ECONOMY.test(kind) ? "/economy" : ""}/${kind === "currency" ? "currencies" : `${kind}s`}`;

/** Goes anywhere by a few letters: screens, and whatever has a name. */
export const Palette = ({ project }: { project: string | undefined }) => {
  const [query, setQuery] = useState("");
  const [asked] = useDebouncedValue(query.trim(), 200);
  const [, go] = useLocation();
  const enabled = asked !== "" && project !== undefined;
  const found = useApi("search", { query: { q: asked } }, { enabled });
  // What is found later than it is typed is chosen by Enter, too.
  useEffect(() => {
    if (!document.querySelector("[data-action][data-selected]"))
      document.querySelector("[data-action]")?.setAttribute("data-selected", "true");
  }, [found.data]);
  const actions: SpotlightActionData[] = useScreens(project).map(({ to, title, group, icon }) => ({
    id: to,
    label: title,
    description: group,
    leftSection: <Icon name={icon ?? "players"} />,
    onClick: () => go(to),
  }));
  actions.push({ id: "sign-out", label: "Sign out", onClick: () => void signOut() });
  for (const { kind, id, key, name } of enabled ? (found.data?.data ?? []) : [])
    actions.push({
      id: `${kind} ${id}`,
      label: name || key || id,
      description: `${words(kind)}${key ? ` · ${key}` : ""}`,
      keywords: [query, key ?? ""],
      onClick: () => go(`/p/${project}${placeOf(kind)}/${id}`),
    });
  return (
    <Spotlight
      actions={actions}
      query={query}
      onQueryChange={setQuery}
      shortcut={["mod + K"]}
      nothingFound="Nothing found"
      highlightQuery
      limit={20}
      scrollable
      maxHeight={420}
      searchProps={{ placeholder: "Search players, rules, screens…", "aria-label": "Search" }}
      attributes={{ content: { "aria-label": "Command palette" } }}
    />
  );
};
