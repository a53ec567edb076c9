"""Policy `pack`: put each pod where least of what others will ask for is lost.

1. `demand_history` counts the shapes of past pods; `forecast` learns from it what free room is
   worth: the value of a partly used card by cutting stock (`knapsack`, `cutting_stock`,
   `card_values`), processor and memory per card, and how scarce each kind of card is.
2. `potential` adds this up to what a node has lost; the node that loses least by a pod is first.
3. `loss_cache` remembers the answer per shape and node, and asks again only about nodes that
   changed.
4. `whole_node_reserve` keeps whole nodes free for pods of many cards, where `host_shortage` sees
   that hosts run out of processor.
5. `catalogue`, `fleet_tracker` and `ordering` apply it to the fleet; the rest knows columns of
   numbers only.

Sources: the cutting stock problem and its prices are Gilmore and Gomory's (Operations Research 9,
1961, and 11, 1963); to place where expected fragmentation grows least is the idea of FGD (Weng et
al., USENIX ATC'23), whose measure is replaced here. docs/packing.md explains it in words.
Nothing here promises that a pod fits: the predicates decide that. These are orders of preference.
"""
