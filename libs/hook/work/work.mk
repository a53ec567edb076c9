$(B)/tessera-work: work/work.c $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -std=gnu11 -Wall -Wextra -Wshadow -Wmissing-prototypes -Werror -Iabi $< -o $@ -ldl
.PHONY: work
work: $(B)/tessera-work ## what a pod of the demo runs
